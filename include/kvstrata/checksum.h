// XXH3-64, the checksum of every format here: not against forgery, but against bits that flip.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kvstrata/bytes.h"

namespace kvstrata {

/// With the widest instructions this CPU has.
std::uint64_t xxh3(ByteView bytes);
std::uint64_t xxh3(ByteView bytes, std::uint64_t seed);

/// Of a header's first bytes: those before the sum in it, at `bytes`.
template <typename Header>
std::uint64_t xxh3_of_head(const Header& header, std::size_t bytes) {
  return xxh3(std::as_bytes(std::span(&header, 1)).first(bytes));
}

/// The same sum of bytes that come in pieces. One thread at a time.
class Xxh3Stream {
 public:
  Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;
  ~Xxh3Stream();

  void update(ByteView bytes);
  std::uint64_t digest() const;  ///< of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvstrata
