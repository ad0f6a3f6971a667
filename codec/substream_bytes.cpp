#include "codec/substream_bytes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kvstrata/checksum.h"

namespace kvstrata::codec {

namespace {

/// Collects short runs, so that the hash is fed in long ones.
class RunHasher {
 public:
  void add(const std::byte* run, std::uint64_t bytes) {
    if (bytes >= buffer_.size()) {
      flush();
      stream_.update({run, bytes});
      return;
    }
    if (buffer_.size() - used_ < bytes) flush();
    std::memcpy(buffer_.data() + used_, run, bytes);
    used_ += bytes;
  }

  std::uint64_t digest() {
    flush();
    return stream_.digest();
  }

 private:
  void flush() {
    stream_.update(ByteView(buffer_).first(used_));
    used_ = 0;
  }

  Xxh3Stream stream_;
  std::array<std::byte, 4096> buffer_;
  std::size_t used_ = 0;
};

}  // namespace

std::uint64_t hash_substream(const Placement& place, const std::byte* payload) {
  if (place.contiguous()) return xxh3({payload + place.offset, place.run_bytes});
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
