#include "bench/codec/peers.h"

#include <htscodecs/rANS_static4x16.h>
#include <zstd.h>

#include <algorithm>

#include "bench/common/process.h"

namespace kvstrata::bench {

namespace {

using Byte = unsigned char;

const Byte* bytes_of(const ByteVector& bytes) {
  return reinterpret_cast<const Byte*>(bytes.data());
}
Byte* bytes_of(ByteVector& bytes) {
  return reinterpret_cast<Byte*>(bytes.data());
}

// Plain loops that the compiler turns into vector code for the machine at hand.
__attribute__((target_clones("arch=skylake-avx512", "avx2", "default"))) void split(
    const std::uint16_t* bf16, std::size_t scalars, Byte* exponents, Byte* rest) {
  for (std::size_t i = 0; i < scalars; ++i) {
    exponents[i] = static_cast<Byte>(bf16[i] >> 7);
    rest[i] = static_cast<Byte>((bf16[i] & 0x7f) | (bf16[i] >> 8 & 0x80));
  }
}

__attribute__((target_clones("arch=skylake-avx512", "avx2", "default"))) void join(
    const Byte* exponents, const Byte* rest, std::size_t scalars, std::uint16_t* bf16) {
  for (std::size_t i = 0; i < scalars; ++i) {
    bf16[i] =
        static_cast<std::uint16_t>(exponents[i] << 7 | (rest[i] & 0x7f) | (rest[i] & 0x80) << 8);
  }
}

class Htscodecs final : public Peer {
 public:
  explicit Htscodecs(int cpu) : cpu_(cpu) {}

  std::uint64_t encode(ByteView bf16) override {
    rans_set_cpu(cpu_);
    planes_ = SplitPlanes::of(bf16);
    auto bytes = static_cast<unsigned>(planes_.exponents.size());
    coded_.resize(rans_compress_bound_4x16(bytes, RANS_ORDER_X32));
    coded_bytes_ = static_cast<unsigned>(coded_.size());
    if (rans_compress_to_4x16(bytes_of(planes_.exponents), bytes, bytes_of(coded_), &coded_bytes_,
                              RANS_ORDER_X32) == nullptr) {
      fail("htscodecs: it can't encode");
    }
    return coded_bytes_ + planes_.rest.size();
  }

  void decode(MutableBytes bf16) override {
    rans_set_cpu(cpu_);
    auto bytes = static_cast<unsigned>(planes_.exponents.size());
    if (rans_uncompress_to_4x16(bytes_of(coded_), coded_bytes_, bytes_of(planes_.exponents),
                                &bytes) == nullptr) {
      fail("htscodecs: it can't decode");
    }
    planes_.merge(bf16);
  }

 private:
  int cpu_;
  SplitPlanes planes_;
  ByteVector coded_;
  unsigned coded_bytes_ = 0;
};

class Zstd final : public Peer {
 public:
  std::uint64_t encode(ByteView bf16) override {
    planes_ = SplitPlanes::of(bf16);
    coded_.resize(ZSTD_compressBound(planes_.exponents.size()));
    coded_bytes_ = ZSTD_compressCCtx(encoder_.get(), coded_.data(), coded_.size(),
                                     planes_.exponents.data(), planes_.exponents.size(), 1);
    if (ZSTD_isError(coded_bytes_) != 0) fail("zstd: it can't encode");
    return coded_bytes_ + planes_.rest.size();
  }

  void decode(MutableBytes bf16) override {
    const std::size_t bytes =
        ZSTD_decompressDCtx(decoder_.get(), planes_.exponents.data(), planes_.exponents.size(),
                            coded_.data(), coded_bytes_);
    if (bytes != planes_.exponents.size()) fail("zstd: it can't decode");
    planes_.merge(bf16);
  }

 private:
  template <auto free>
  struct Free {
    template <typename Context>
    void operator()(Context* context) const {
      free(context);
    }
  };
  std::unique_ptr<ZSTD_CCtx, Free<ZSTD_freeCCtx>> encoder_{ZSTD_createCCtx()};
  std::unique_ptr<ZSTD_DCtx, Free<ZSTD_freeDCtx>> decoder_{ZSTD_createDCtx()};
  SplitPlanes planes_;
  ByteVector coded_;
  std::size_t coded_bytes_ = 0;
};

}  // namespace

SplitPlanes SplitPlanes::of(ByteView bf16) {
  SplitPlanes planes{ByteVector(bf16.size() / 2), ByteVector(bf16.size() / 2)};
  split(reinterpret_cast<const std::uint16_t*>(bf16.data()), bf16.size() / 2,
        bytes_of(planes.exponents), bytes_of(planes.rest));
  return planes;
}

void SplitPlanes::merge(MutableBytes bf16) const {
  join(bytes_of(exponents), bytes_of(rest), exponents.size(),
       reinterpret_cast<std::uint16_t*>(bf16.data()));
}

std::unique_ptr<Peer> htscodecs_peer(int cpu) {
  return std::make_unique<Htscodecs>(cpu);
}
std::unique_ptr<Peer> zstd_peer() {
  return std::make_unique<Zstd>();
}

}  // namespace kvstrata::bench
