// Golden keys: specs and the keys they must have for ever, from tests/data/golden_keys.json. The
// keys were made once by this code and checked by golden_keys_check.py, which shares none of it.
#pragma once

#include <string>
#include <vector>

#include "kvstrata/keys.h"

namespace kvstrata::test {

struct OpaqueKey {
  std::string key;
  std::string hash;  ///< hex, as all below
};

struct GoldenKeys {
  std::string name;
  NamespaceSpec spec;
  std::vector<std::uint32_t> tokens;
  std::vector<std::vector<std::string>> block_extra_keys;  ///< per block; missing: none
  std::string namespace_bytes;
  std::string namespace_hash;
  std::vector<std::string> prefix_hashes;
  std::vector<OpaqueKey> opaque_keys;
};

std::vector<GoldenKeys> read_golden_keys(const std::string& path);

/// The hashes of all full blocks, extra keys included.
std::vector<std::string> computed_prefix_hashes(const GoldenKeys& keys);

std::string to_hex(ByteView bytes);

}  // namespace kvstrata::test
