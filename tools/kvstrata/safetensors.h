// A SafetensorsFile is a file of named tensors, mapped for reading: a length, a JSON header, bytes.
// Nothing in it is code. Format: https://huggingface.co/docs/safetensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::tool {

struct Tensor {
  std::string name;
  std::string dtype;  ///< as the file names it: "BF16", "F16", "F8_E4M3", ...
  std::vector<std::uint64_t> shape;
  ByteView data;  ///< row-major; of the file's memory
};

class SafetensorsFile {
 public:
  /// `corrupt` for a header that is too long, no JSON or contradicts the file's length.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::vector<Tensor>& tensors() const { return tensors_; }  ///< in the order of their bytes
  const Tensor* find(std::string_view name) const;                 ///< nullptr: there is none
  /// Where a tensor of this file begins in it.
  std::uint64_t offset(const Tensor& tensor) const {
    return static_cast<std::uint64_t>(tensor.data.data() - memory_.get());
  }

 private:
  std::shared_ptr<const std::byte> memory_;
  std::vector<Tensor> tensors_;
};

}  // namespace kvstrata::tool
