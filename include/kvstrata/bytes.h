// Views of bytes, little-endian loads and stores, and the few sums of sizes everybody needs.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace kvstrata {

static_assert(std::endian::native == std::endian::little, "formats are written in place");

using ByteView = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;
using ByteVector = std::vector<std::byte>;

inline constexpr std::uint64_t operator""_KiB(unsigned long long n) {
  return n << 10;
}
inline constexpr std::uint64_t operator""_MiB(unsigned long long n) {
  return n << 20;
}
inline constexpr std::uint64_t operator""_GiB(unsigned long long n) {
  return n << 30;
}

/// `n` rounded up to a multiple of `unit`, which is a power of two.
constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) {
  return (n + unit - 1) & ~(unit - 1);
}

/// The value at `at` of an unaligned little-endian integer.
template <std::integral T>
T load_le(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <std::integral T>
void store_le(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <std::integral T>
void append_le(ByteVector& out, T value) {
  const auto* at = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), at, at + sizeof value);
}

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The bytes of a trivially copyable array, for example token ids.
template <typename T>
ByteView bytes_of(std::span<const T> items) {
  return {reinterpret_cast<const std::byte*>(items.data()), items.size_bytes()};
}

}  // namespace kvstrata
