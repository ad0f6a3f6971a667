// ChunkMappings remember which connection may have which chunk mapped: from when it was sent until
// the client says it unmapped it, or its connection ends. Control thread only.
#pragma once

#include <set>
#include <unordered_map>
#include <vector>

#include "kvstrata/id.h"

namespace kvstrata::hostmem {

class ChunkMappings {
 public:
  void add(ChunkId chunk, ConnectionId connection) {
    by_chunk_[chunk].insert(connection);
    by_connection_[connection].insert(chunk);
  }

  /// A pair that isn't there is ignored: clients may say things twice.
  void remove(ChunkId chunk, ConnectionId connection) {
    take(by_chunk_, chunk, connection);
    take(by_connection_, connection, chunk);
  }

  /// Forgets `connection`; returns the chunks it had.
  std::vector<ChunkId> remove_all(ConnectionId connection) {
    const auto found = by_connection_.find(connection);
    if (found == by_connection_.end()) return {};
    const std::vector<ChunkId> chunks(found->second.begin(), found->second.end());
    by_connection_.erase(found);
    for (const ChunkId chunk : chunks) take(by_chunk_, chunk, connection);
    return chunks;
  }

  bool is_mapped(ChunkId chunk) const { return by_chunk_.contains(chunk); }

  std::vector<ConnectionId> of(ChunkId chunk) const {
    const auto found = by_chunk_.find(chunk);
    if (found == by_chunk_.end()) return {};
    return {found->second.begin(), found->second.end()};
  }

 private:
  /// Sets are erased with their last member, so is_mapped() is contains().
  template <typename Key, typename Member>
  static void take(std::unordered_map<Key, std::set<Member>>& sets, Key key, Member member) {
    const auto found = sets.find(key);
    if (found == sets.end()) return;
    found->second.erase(member);
    if (found->second.empty()) sets.erase(found);
  }

  std::unordered_map<ChunkId, std::set<ConnectionId>> by_chunk_;
  std::unordered_map<ConnectionId, std::set<ChunkId>> by_connection_;
};

}  // namespace kvstrata::hostmem
