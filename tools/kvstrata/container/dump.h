// A Dump is a file that is to be encoded, seen as parts that cover every byte of it once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/kvstrata/container/input_file.h"
#include "tools/kvstrata/container/part.h"

namespace kvstrata::tool {

struct DumpOptions {
  std::optional<DType> dtype;        ///< the file is scalars of it; none: a safetensors file
  std::uint32_t block_tokens = 256;  ///< of a frame, 1..1024; fewer where blocks would be large
};

struct Dump {
  InputFile file;
  std::vector<Part> parts;  ///< in the order of their bytes

  /// Of tensors `k.N` and `v.N` [layers, kv_heads, tokens, head_dim] a part each pair, of tensors
  /// [layers, 2, kv_heads, tokens, head_dim] a part each, of others values, or bytes where the
  /// codecs don't know the dtype. `corrupt` for a file that contradicts itself.
  static Result<Dump> open(const std::string& path, const DumpOptions& options);

  /// Reads one frame's payload; `out` has the size of its shape.
  Status read(const Part& part, std::uint64_t frame, MutableBytes out) const;
};

}  // namespace kvstrata::tool
