#include "daemon/engine/copy_hash.h"

#include <algorithm>
#include <cstring>

#include "kvstrata/checksum.h"

namespace kvstrata::daemon {

namespace {

constexpr std::size_t piece_bytes = 64 * 1024;  // stays in the second-level cache between the two

}  // namespace

std::uint64_t copy_and_hash(ByteView from, MutableBytes to) {
  Xxh3Stream sum;
  for (std::size_t at = 0; at < from.size(); at += piece_bytes) {
    const std::size_t bytes = std::min(piece_bytes, from.size() - at);
    std::memcpy(to.data() + at, from.data() + at, bytes);
    sum.update(to.subspan(at, bytes));
  }
  return sum.digest();
}

std::uint64_t hash_payload(ByteView bytes) {
  return xxh3(bytes);
}

}  // namespace kvstrata::daemon
