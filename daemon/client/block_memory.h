// A BlockMemory is what a BlockView looks into: a chunk of shared memory, or blocks that came in a
// message. Kept alive by the views. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "kvstrata/bytes.h"

namespace kvstrata::client {

class BlockMemory {
 public:
  virtual ~BlockMemory() = default;

  /// Whether the slot still holds the content of `generation`: what was read from it before the
  /// call is that content then.
  virtual bool holds(std::uint32_t slot, std::uint64_t generation) const = 0;
};

/// Bytes of this process; nobody changes them.
class OwnMemory final : public BlockMemory {
 public:
  explicit OwnMemory(std::uint64_t bytes)
      : data_(std::make_unique_for_overwrite<std::byte[]>(bytes)), bytes_(bytes) {}

  MutableBytes all() const { return {data_.get(), bytes_}; }
  bool holds(std::uint32_t, std::uint64_t) const override { return true; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::uint64_t bytes_;
};

}  // namespace kvstrata::client
