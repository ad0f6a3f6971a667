#include "include/impl/block_map.h"

#include <random>

#include "kvstrata/checksum.h"

namespace kvstrata {

namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

std::size_t SeededBlockHash::operator()(const BlockKey& key) const noexcept {
  static const std::uint64_t seed = random_seed();
  const std::uint64_t where = (std::uint64_t{key.ns.value} << 16) | key.group;
  return xxh3(key.digest.bytes, seed + where);
}

}  // namespace kvstrata
