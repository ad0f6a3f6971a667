// Id: an integer that can't be mistaken for another integer.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace kvstrata {

/// An Id names one thing of one kind; `Tag` keeps kinds apart, `value` is the plain number.
template <typename Tag, typename Number>
struct Id {
  Number value{};

  friend constexpr auto operator<=>(Id, Id) = default;
};

using NamespaceId = Id<struct NamespaceTag, std::uint32_t>;  ///< of the store; never reused
using TenantId = Id<struct TenantTag, std::uint32_t>;        ///< of the daemon's token table
using SegmentId = Id<struct SegmentTag, std::uint32_t>;      ///< names the file; never reused
using ChunkId = Id<struct ChunkTag, std::uint64_t>;          ///< of one daemon run; never reused
using LeaseId = Id<struct LeaseTag, std::uint64_t>;          ///< of one daemon run; never reused
using ConnectionId = Id<struct ConnectionTag, std::uint64_t>;
using TableId = Id<struct TableTag, std::uint32_t>;  ///< codec tables of one namespace; 0 is none
using Sequence = Id<struct SequenceTag, std::uint64_t>;  ///< order of commits in one daemon run

}  // namespace kvstrata

template <typename Tag, typename Number>
struct std::hash<kvstrata::Id<Tag, Number>> {
  std::size_t operator()(kvstrata::Id<Tag, Number> id) const noexcept {
    return std::hash<Number>{}(id.value);
  }
};
