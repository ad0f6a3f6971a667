// What the stressor's clients put and read: a Shelf has values of opaque keys, values of a
// namespace that is cleared often, and chains of blocks, each key with its History. Threads: safe
// from any.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "history.h"
#include "kvstrata/client.h"

namespace kvstrata::test {

enum class Area : std::uint8_t { values, cleared, chains };

struct Key {
  Key(std::string key_name, std::uint64_t value_bytes, Moments& moments)
      : name(std::move(key_name)), bytes(value_bytes), history(moments) {}

  std::string name;
  std::uint64_t bytes;
  History history;

  /// Version `version` of it; the version stands in front.
  ByteVector content(std::uint64_t version) const;
};

/// One value, or one chain from its first block on.
struct Row {
  Area area = Area::values;
  std::string name;
  std::vector<std::uint32_t> tokens;  ///< of a chain
  std::vector<Key*> keys;

  bool is_chain() const { return area == Area::chains; }
};

class Shelf {
 public:
  /// More than the disk budget of 64 MiB holds if `large`.
  explicit Shelf(bool large);

  std::uint64_t next_version() { return versions_.fetch_add(1) + 1; }
  std::vector<Row>& rows() { return rows_; }
  static NamespaceSpec spec(Area area);

 private:
  void add_row(Area area, std::size_t number, std::size_t keys);

  Moments moments_;
  std::atomic<std::uint64_t> versions_{0};
  std::deque<Key> keys_;
  std::vector<Row> rows_;
};

}  // namespace kvstrata::test
