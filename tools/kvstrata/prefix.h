// A prefix as it is typed: token ids ("1,2,3" or "@file"), or block hashes in hex.
#pragma once

#include <string>
#include <vector>

#include "kvstrata/client.h"

namespace kvstrata::cli {

struct Prefix {
  std::vector<std::uint32_t> tokens;
  std::vector<Hash256> hashes;
  Selection selection(std::uint16_t group) const {
    return hashes.empty() ? Selection::of_tokens(tokens, group)
                          : Selection::of_hashes(hashes, group);
  }
};

/// `invalid_argument` names what can't be read.
Result<Prefix> parse_prefix(const std::string& text);

/// A whole file, or standard input for "-"; at most `bytes_max`.
Result<ByteVector> read_input(const std::string& path, std::uint64_t bytes_max);

}  // namespace kvstrata::cli
