// Sizes as people write them: "50GiB", "512MiB", "4096". Stateless; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvstrata/result.h"

namespace kvstrata::daemon {

/// A whole number and B, KiB, MiB, GiB or TiB (powers of 1024), or no unit for bytes.
/// `invalid_argument` says what is accepted; sizes over 2^60 are refused.
Result<std::uint64_t> parse_size(std::string_view text);

/// In the largest unit that leaves a whole number: parse_size(format_size(n)) == n.
std::string format_size(std::uint64_t bytes);

}  // namespace kvstrata::daemon
