#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace kvstrata::test {

namespace {

using Distance = Input::difference_type;

/// A range of `input` that is not empty.
struct Range {
  std::size_t first, size;
  auto begin(Input& input) const { return input.begin() + static_cast<Distance>(first); }
  auto end(Input& input) const { return input.begin() + static_cast<Distance>(first + size); }
};

Range random_range(const Input& input, Random& random) {
  const std::size_t first = random.below(input.size());
  const std::size_t longest = input.size() - first;
  return {first, 1 + random.below(random.one_in(2) ? std::min<std::size_t>(longest, 16) : longest)};
}

/// The numbers parsers get wrong: around zero, powers of two and the ends of the types.
std::uint64_t interesting_number(Random& random) {
  switch (random.below(4)) {
    case 0: return random.below(17);
    case 1: return (std::uint64_t{1} << random.below(64)) + random.below(3) - 1;
    case 2: return std::numeric_limits<std::uint64_t>::max() - random.below(17);
    default: return random.bits();
  }
}

void write_number(Input& input, Random& random) {
  const std::uint64_t number = interesting_number(random);
  const std::size_t width = std::min(input.size(), std::size_t{1} << random.below(4));
  std::memcpy(input.data() + random.below(input.size() - width + 1), &number, width);
}

void add_to_number(Input& input, Random& random) {
  const std::size_t width = std::min(input.size(), std::size_t{1} << random.below(4));
  std::uint8_t* at = input.data() + random.below(input.size() - width + 1);
  std::uint64_t number = 0;
  std::memcpy(&number, at, width);
  number += random.below(33) - 16;
  std::memcpy(at, &number, width);
}

void insert_bytes(Input& input, Random& random) {
  const std::size_t at = random.below(input.size() + 1);
  const Input added = random_input(random, 32);
  input.insert(input.begin() + static_cast<Distance>(at), added.begin(), added.end());
}

void repeat_range(Input& input, Random& random) {
  const Range range = random_range(input, random);
  const Input copy(range.begin(input), range.end(input));
  input.insert(range.begin(input), copy.begin(), copy.end());
}

void mutate_once(Input& input, Random& random) {
  if (input.empty()) return insert_bytes(input, random);
  switch (random.below(9)) {
    case 0: input[random.below(input.size())] ^= std::uint8_t(1U << random.below(8)); break;
    case 1: input[random.below(input.size())] = static_cast<std::uint8_t>(random.bits()); break;
    case 2: write_number(input, random); break;
    case 3: add_to_number(input, random); break;
    case 4: insert_bytes(input, random); break;
    case 5: repeat_range(input, random); break;
    case 6: input.resize(random.below(input.size() + 1)); break;
    case 7: {
      const Range range = random_range(input, random);
      input.erase(range.begin(input), range.end(input));
      break;
    }
    default: {
      const Range range = random_range(input, random);
      std::fill(range.begin(input), range.end(input), static_cast<std::uint8_t>(random.bits()));
    }
  }
}

}  // namespace

Input random_input(Random& random, std::size_t size_max) {
  const std::size_t longest = std::min(size_max, std::size_t{1} << random.below(17));
  Input input(random.below(longest + 1));
  constexpr std::array<std::uint64_t, 4> ranges{256, 4, 1, 96};
  const std::uint64_t kind = random.below(ranges.size());
  const auto first = static_cast<std::uint8_t>(kind == 3 ? ' ' : kind == 2 ? random.bits() : 0);
  for (std::uint8_t& byte : input) {
    byte = static_cast<std::uint8_t>(first + random.below(ranges[kind]));
  }
  return input;
}

void mutate(Input& input, std::size_t size_max, Random& random) {
  for (std::uint64_t left = 1 + random.below(8); left > 0; --left) mutate_once(input, random);
  if (input.size() > size_max) input.resize(size_max);
}

void splice(Input& input, const Input& other, Random& random) {
  if (other.empty()) return;
  const Range from = random_range(other, random);
  const auto first = other.begin() + static_cast<Distance>(from.first);
  const std::size_t at = random.below(input.size() + 1);
  if (random.one_in(2)) input.resize(at);
  input.insert(input.begin() + static_cast<Distance>(at), first,
               first + static_cast<Distance>(from.size));
}

}  // namespace kvstrata::test
