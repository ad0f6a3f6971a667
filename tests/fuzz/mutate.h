// Mutations of fuzz inputs, where libFuzzer's own are not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/base/seed.h"

namespace kvstrata::test {

using Input = std::vector<std::uint8_t>;

/// Bytes of some kind: uniform, small, one value, or text. Mostly short.
Input random_input(Random& random, std::size_t size_max);

/// Changes one to eight things: bits, bytes, integers, lengths, order.
void mutate(Input& input, std::size_t size_max, Random& random);

/// Puts part of `other` over or into `input`.
void splice(Input& input, const Input& other, Random& random);

}  // namespace kvstrata::test
