// KeyHistograms: how often each channel holds each (sign, key), the input of a fit. Sparse, because
// most channels use a dozen keys. Built and read by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/code_cost.h"
#include "codec/geometry.h"
#include "kvstrata/bytes.h"

namespace kvstrata::codec {

class KeyHistograms {
 public:
  struct Entry {
    std::uint32_t bin : 9;     ///< see key_bin()
    std::uint32_t count : 23;  ///< of scalars, saturated
  };
  static_assert(sizeof(Entry) == 4);

  /// Counts the channels of all sub-streams, in the order of the tables' index; for opaque shapes
  /// each piece of each payload is a channel. Of long inputs every n-th token is looked at.
  static KeyHistograms of(const BlockShape& shape, std::span<const ByteView> payloads);

  std::size_t channels() const { return first_entry_.size() - 1; }
  std::span<const Entry> channel(std::size_t index) const {
    return std::span(entries_).subspan(first_entry_[index],
                                       first_entry_[index + 1] - first_entry_[index]);
  }
  std::uint64_t samples() const { return samples_; }

 private:
  void end_channel(KeyCounts& counts);

  std::vector<Entry> entries_;
  std::vector<std::size_t> first_entry_{0};
  std::uint64_t samples_ = 0;
};

}  // namespace kvstrata::codec
