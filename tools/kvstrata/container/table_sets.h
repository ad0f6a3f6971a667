// TableSets: the static codec's tables of a file, one set for each dtype and dimensions of its
// parts. Immutable once made; free to copy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "codec/static_tables.h"
#include "tools/kvstrata/container/dump.h"

namespace kvstrata::tool {

using Tables = std::shared_ptr<const codec::StaticTables>;

class TableSets {
 public:
  TableSets() = default;

  /// Fits a set on `blocks` frames of each shape in the dump, evenly spread over it, of values on
  /// as many MiB; on fewer where these would be more than 512 MiB. Parts name their set thereafter;
  /// those too small to make up for tables stay without one.
  static Result<TableSets> fit(Dump& dump, std::uint32_t blocks);

  /// Takes the sets that fit the dump's parts from a codec file, or from tables as a frame names
  /// them. `invalid_argument` if none fits any part.
  static Result<TableSets> load(const std::string& path, Dump& dump);

  void add(Tables tables) { sets_.push_back(std::move(tables)); }
  std::size_t size() const { return sets_.size(); }
  /// nullptr for no_set.
  const codec::StaticTables* of(std::uint32_t set) const {
    return set == no_set ? nullptr : sets_.at(set).get();
  }
  const std::vector<Tables>& all() const { return sets_; }

 private:
  std::vector<Tables> sets_;
};

/// What tables of a part's frames must be of.
codec::TableSet::Dimensions dimensions_of(const Part& part);
codec::TableSet::Dimensions dimensions_of(const codec::StaticTables& tables);

}  // namespace kvstrata::tool
