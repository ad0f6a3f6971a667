// Shared by the tests of the wire protocol: bytes from and to hex, and bodies at random.
#pragma once

#include <string>
#include <string_view>

#include "daemon/protocol/body.h"
#include "kvstrata/bytes.h"
#include "tests/base/seed.h"

namespace kvstrata::test {

/// Bytes of hex digits; everything else (blanks, line ends) is skipped.
inline ByteVector from_hex(std::string_view text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  ByteVector bytes;
  bool high = true;
  for (const char letter : text) {
    const auto digit = digits.find(letter);
    if (digit == digits.npos) continue;
    if (high) bytes.push_back(static_cast<std::byte>(digit << 4));
    if (!high) bytes.back() |= static_cast<std::byte>(digit);
    high = !high;
  }
  return bytes;
}

inline std::string to_hex(ByteView bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

inline std::string random_text(Random& random, std::size_t bytes_max) {
  std::string text(random.below(bytes_max + 1), '\0');
  for (char& letter : text) letter = static_cast<char>(random.below(256));
  return text;
}

/// Numbers of every length, not only huge ones.
inline std::uint64_t random_number(Random& random) {
  return random.bits() >> random.below(64);
}

inline void set_random_field(Random& random, const std::string& key, int depth_left,
                             protocol::Body& body);

/// Nests at most as deep as a body may: 2 levels of arrays of maps, and an indexed field in the
/// last.
inline protocol::Body random_body(Random& random, int depth_left = 2) {
  protocol::Body body;
  for (std::uint64_t fields = random.below(8); fields > 0; --fields) {
    set_random_field(random, random_text(random, 12), depth_left, body);
  }
  return body;
}

inline void set_random_field(Random& random, const std::string& key, int depth_left,
                             protocol::Body& body) {
  switch (random.below(depth_left > 0 ? 9 : 7)) {
    case 0: body.set_u64(key, random_number(random)); return;
    case 1: body.set_i64(key, -static_cast<std::int64_t>(random_number(random) >> 1)); return;
    case 2: body.set_bool(key, random.one_in(2)); return;
    case 3: body.set_text(key, random_text(random, 300)); return;
    case 4: body.set_bytes(key, as_bytes(random_text(random, 300))); return;
    case 5: body.set_u64s(key, std::vector<std::uint64_t>(random.below(40), random.bits())); return;
    case 6:
      body.set_indexed_bytes(key, {{3, {"image", ""}}, {9, {random_text(random, 40)}}});
      return;
    case 7: body.set_body(key, random_body(random, depth_left - 1)); return;
    default: body.set_bodies(key, std::vector{random_body(random, depth_left - 1)}); return;
  }
}

}  // namespace kvstrata::test
