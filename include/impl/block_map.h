// A BlockMap maps block keys to something, in one flat array: a look-up of a cold key costs two
// cache misses instead of a list's four. References into it do not survive an insertion.
//
// Its hash is seeded per process: clients may bring digests of their own making, and must not be
// able to choose ones that collide.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <type_traits>

#include "kvstrata/keys.h"

namespace kvstrata {

struct SeededBlockHash {
  std::size_t operator()(const BlockKey& key) const noexcept;
};

}  // namespace kvstrata

/// Tells the map that the bits are well mixed already.
template <>
struct boost::unordered::hash_is_avalanching<kvstrata::SeededBlockHash> : std::true_type {};

namespace kvstrata {

template <typename T>
using BlockMap = boost::unordered_flat_map<BlockKey, T, SeededBlockHash>;

}  // namespace kvstrata
