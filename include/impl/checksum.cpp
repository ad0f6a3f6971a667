#include "kvstrata/checksum.h"

#define XXH_STATIC_LINKING_ONLY  // the state as a member
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same names for functions that look at the CPU
#endif

namespace kvstrata {

// The state wants to lie at a multiple of 64.
struct Xxh3Stream::State {
  alignas(64) XXH3_state_t of_library;
};

std::uint64_t xxh3(ByteView bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t xxh3(ByteView bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->of_library);
}
Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(ByteView bytes) {
  XXH3_64bits_update(&state_->of_library, bytes.data(), bytes.size());
}

std::uint64_t Xxh3Stream::digest() const {
  return XXH3_64bits_digest(&state_->of_library);
}

}  // namespace kvstrata
