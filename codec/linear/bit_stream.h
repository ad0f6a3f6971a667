// Bits in a stream of bytes, the lowest first. Plain data; one thread at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kvstrata/bytes.h"

namespace kvstrata::codec {

/// Bytes that may be read beyond the end of a stream, whatever they hold.
inline constexpr std::size_t stream_padding = 64;

class BitWriter {
 public:
  /// The low `count` bits, at most 32; those above are 0.
  void append(std::uint32_t bits, std::uint32_t count) {
    pending_ |= std::uint64_t{bits} << pending_bits_;
    pending_bits_ += count;
    while (pending_bits_ >= 8) {
      bytes_.push_back(static_cast<std::byte>(pending_));
      pending_ >>= 8;
      pending_bits_ -= 8;
    }
  }
  void append_zeros(std::uint32_t count) { append(0, count); }

  /// All bytes, the last one filled up with zeros.
  ByteVector take() {
    if (pending_bits_ != 0) bytes_.push_back(static_cast<std::byte>(pending_));
    return std::move(bytes_);
  }

 private:
  ByteVector bytes_;
  std::uint64_t pending_ = 0;
  std::uint32_t pending_bits_ = 0;
};

/// Of a stream with stream_padding. Beyond its end come bits of no meaning, and overrun() is true.
class BitReader {
 public:
  BitReader() = default;
  BitReader(const std::uint8_t* bytes, std::uint64_t size) : bytes_(bytes), end_(8 * size) {}

  std::uint32_t take(std::uint32_t count) {  ///< at most 32
    const std::uint64_t mask = (std::uint64_t{1} << count) - 1;
    const auto bits = static_cast<std::uint32_t>(peek() & mask);
    at_ += count;
    return bits;
  }
  /// Zeros up to `most`, at most 32, and the one behind them, if it comes before that.
  std::uint32_t take_zeros(std::uint32_t most) {
    const std::uint64_t stop = std::uint64_t{1} << most;
    const auto zeros = static_cast<std::uint32_t>(std::countr_zero(peek() | stop));
    at_ += zeros < most ? zeros + 1 : most;
    return zeros;
  }
  bool overrun() const { return at_ > end_; }
  /// True if all bits were taken, but for zeros that fill the last byte.
  bool at_end() const {
    return at_ <= end_ && end_ - at_ < 8 &&
           (peek() & ((std::uint64_t{1} << (end_ - at_)) - 1)) == 0;
  }
  const std::uint8_t* bytes() const { return bytes_; }
  std::uint64_t position() const { return at_; }
  void skip(std::uint64_t count) { at_ += count; }

 private:
  std::uint64_t peek() const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes_ + (at_ < end_ ? at_ : end_) / 8, sizeof bits);
    return bits >> at_ % 8;
  }

  const std::uint8_t* bytes_ = nullptr;
  std::uint64_t at_ = 0, end_ = 0;
};

}  // namespace kvstrata::codec
