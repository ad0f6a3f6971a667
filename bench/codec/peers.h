// Peers: what a user would take instead of the static codec. Both get bf16 split by bytes, the
// exponents coded, sign and mantissa stored; decoding merges them again, as ours does.
#pragma once

#include <cstdint>
#include <memory>

#include "kvstrata/bytes.h"

namespace kvstrata::bench {

/// bf16 scalars as two planes: exponents, and sign with mantissa.
struct SplitPlanes {
  ByteVector exponents, rest;

  static SplitPlanes of(ByteView bf16);
  void merge(MutableBytes bf16) const;
};

class Peer {
 public:
  virtual ~Peer() = default;
  /// The exponents of `bf16` coded, into memory of its own; returns bytes of all that is stored.
  virtual std::uint64_t encode(ByteView bf16) = 0;
  /// What was encoded last, into `bf16`.
  virtual void decode(MutableBytes bf16) = 0;
};

/// htscodecs' order-0 rANS 32x16, with the instructions that `cpu` (RANS_CPU_...) allows.
std::unique_ptr<Peer> htscodecs_peer(int cpu);
/// zstd at level 1.
std::unique_ptr<Peer> zstd_peer();

inline constexpr int htscodecs_avx2 = 0x202, htscodecs_avx512 = 0x404;

}  // namespace kvstrata::bench
