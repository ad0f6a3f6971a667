#include "kvstrata/checksum.h"

#define XXH_STATIC_LINKING_ONLY  // the state as a member
#include <xxhash.h>
#if defined(__x86_64__)
#include <immintrin.h>
#include <xxh_x86dispatch.h>  // the same names for functions that look at the CPU
#endif

namespace kvstrata {

namespace {

#if defined(__x86_64__)
__attribute__((target("avx"))) void zero_upper_halves() {
  _mm256_zeroupper();
}
#endif

/// The library's functions for AVX-512 leave the upper halves of registers in use. Until these are
/// cleared, each change between old and new instructions of a thread costs hundreds of cycles.
class CleanRegisters {
 public:
  CleanRegisters() = default;
  CleanRegisters(const CleanRegisters&) = delete;
  CleanRegisters& operator=(const CleanRegisters&) = delete;
  ~CleanRegisters() {
#if defined(__x86_64__)
    static const bool has_them = __builtin_cpu_supports("avx") != 0;
    if (has_them) zero_upper_halves();
#endif
  }
};

}  // namespace

// The state wants to lie at a multiple of 64.
struct Xxh3Stream::State {
  alignas(64) XXH3_state_t of_library;
};

std::uint64_t xxh3(ByteView bytes) {
  const CleanRegisters clean;
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t xxh3(ByteView bytes, std::uint64_t seed) {
  const CleanRegisters clean;
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->of_library);
}
Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(ByteView bytes) {
  const CleanRegisters clean;
  XXH3_64bits_update(&state_->of_library, bytes.data(), bytes.size());
}

std::uint64_t Xxh3Stream::digest() const {
  const CleanRegisters clean;
  return XXH3_64bits_digest(&state_->of_library);
}

}  // namespace kvstrata
