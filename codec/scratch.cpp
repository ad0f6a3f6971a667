#include "codec/scratch.h"

#include "kvstrata/check.h"

namespace kvstrata::codec {

namespace {

constexpr std::size_t kept_bytes_max = std::size_t{8} << 20;

/// What a thread keeps between calls.
struct Kept {
  std::unique_ptr<std::uint8_t[]> bytes;
  std::size_t size = 0;
  bool in_use = false;
};

thread_local Kept kept;

std::uint8_t* aligned(std::uint8_t* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return at + (((address + 63) & ~std::uintptr_t{63}) - address);
}

}  // namespace

Scratch::Scratch(std::size_t bytes) {
  bytes += 64;
  if (bytes > kept_bytes_max) {
    own_ = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
    next_ = own_.get();
  } else {
    KV_CHECK(!kept.in_use, "two Scratches at once in one thread");
    kept.in_use = true;
    if (kept.size < bytes) {
      kept.bytes = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
      kept.size = bytes;
    }
    next_ = kept.bytes.get();
  }
  end_ = next_ + bytes;
  next_ = aligned(next_);
}

Scratch::~Scratch() {
  if (!own_) kept.in_use = false;
}

std::uint8_t* Scratch::take(std::size_t bytes) {
  std::uint8_t* const taken = next_;
  KV_CHECK(taken <= end_ && static_cast<std::size_t>(end_ - taken) >= bytes, "Scratch too small");
  next_ = aligned(next_ + bytes);
  return taken;
}

}  // namespace kvstrata::codec
