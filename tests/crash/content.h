// The content of stored values follows from what they are called, so that every byte that is read
// back can be judged, by any process, at any time. Stateless; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvstrata/bytes.h"

namespace kvstrata::test {

/// Bytes that look like bf16 activations, so that encoders have work to do; `name` decides all.
ByteVector content_named(std::string_view name, std::uint64_t bytes);

/// A number that follows from `name`.
std::uint64_t number_named(std::string_view name);

}  // namespace kvstrata::test
