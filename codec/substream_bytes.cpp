#include "codec/substream_bytes.h"

#define XXH_STATIC_LINKING_ONLY  // the streaming state on the stack
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace kvstrata::codec {

namespace {

/// Collects short runs, so that the hash is fed in long ones.
class RunHasher {
 public:
  RunHasher() { XXH3_64bits_reset(&state_); }

  void add(const std::byte* run, std::uint64_t bytes) {
    if (bytes >= buffer_.size()) {
      flush();
      XXH3_64bits_update(&state_, run, bytes);
      return;
    }
    if (buffer_.size() - used_ < bytes) flush();
    std::memcpy(buffer_.data() + used_, run, bytes);
    used_ += bytes;
  }

  std::uint64_t digest() {
    flush();
    return XXH3_64bits_digest(&state_);
  }

 private:
  void flush() {
    XXH3_64bits_update(&state_, buffer_.data(), used_);
    used_ = 0;
  }

  XXH3_state_t state_;
  std::array<std::byte, 4096> buffer_;
  std::size_t used_ = 0;
};

}  // namespace

std::uint64_t hash_substream(const Placement& place, const std::byte* payload) {
  if (place.contiguous()) return XXH3_64bits(payload + place.offset, place.run_bytes);
  RunHasher hasher;
  place.for_each_run([&](std::uint64_t at) { hasher.add(payload + at, place.run_bytes); });
  return hasher.digest();
}

void pack_substream(const Placement& place, const std::byte* payload, std::byte* packed) {
  place.for_each_run([&](std::uint64_t at) {
    std::memcpy(packed, payload + at, place.run_bytes);
    packed += place.run_bytes;
  });
}

void unpack_substream(const Placement& place, const std::byte* packed, std::byte* payload) {
  place.for_each_run([&](std::uint64_t at) {
    std::memcpy(payload + at, packed, place.run_bytes);
    packed += place.run_bytes;
  });
}

}  // namespace kvstrata::codec
