// A StaticPlan is the coding order of one static sub-stream: which lane holds which scalar, and
// which table each unit of 16 lanes uses. Immutable once made, shared freely between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codec/geometry.h"
#include "codec/static_tables.h"

namespace kvstrata::codec {

struct StaticPlan {
  std::vector<std::uint32_t> first_lane;  ///< per channel: the lane of its token 0
  std::vector<std::uint8_t> unit_table;   ///< per unit
  std::size_t steps = 0;                  ///< of 128 lanes
  std::size_t sign_steps = 0;             ///< the first ones, whose tables code the sign

  /// Lanes [first, last) that hold no scalar.
  struct Padding {
    std::size_t first, last;
  };
  std::vector<Padding> paddings;

  std::size_t lane_count() const { return steps * lanes; }

  std::size_t bytes() const {
    return first_lane.size() * sizeof first_lane[0] + unit_table.size() +
           paddings.size() * sizeof(Padding);
  }

  /// The order of a sub-stream at `place`. `table` is that of an opaque piece.
  static StaticPlan of(const TableSet& tables, std::uint32_t substream, std::uint8_t table,
                       const Placement& place);
};

/// The same; plans of small sub-streams, which take as long to make as to use, are kept with the
/// tables.
std::shared_ptr<const StaticPlan> plan_for(const TableSet& tables, std::uint32_t substream,
                                           std::uint8_t table, const Placement& place);

}  // namespace kvstrata::codec
