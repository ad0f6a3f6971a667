// Namespaces keeps what the engine needs of each registered namespace at run time: shapes of its
// blocks, the codec tables in use, whether its weights are still current. Control thread only,
// except CodecTables, which locks itself.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codec/codec.h"
#include "daemon/engine/core.h"

namespace kvstrata::daemon {

/// Tables of one layer group: the ones new blocks are coded with, and older ones that stored frames
/// still need. Any thread.
class CodecTables {
 public:
  using Tables = std::shared_ptr<const codec::StaticTables>;

  std::pair<TableId, Tables> current() const;  ///< id 0 and null: none fitted yet
  Tables find(TableId id) const;
  void add(TableId id, Tables tables);  ///< becomes the current one

 private:
  mutable std::mutex mutex_;
  std::unordered_map<TableId, Tables> by_id_;
  TableId current_;
};

struct LayerGroupState {
  codec::BlockShape shape;
  std::uint64_t block_bytes = 0;
  std::shared_ptr<CodecTables> tables = std::make_shared<CodecTables>();
  bool fitting = false;
};

struct Namespace {
  storage::NamespaceRecord record;
  TenantId tenant;
  std::vector<LayerGroupState> groups;  ///< none: opaque keys
  LayerGroupState opaque;               ///< for values of opaque keys

  bool is_opaque() const { return groups.empty(); }
  const ModelDescriptor& model() const { return record.spec.model; }
  LayerGroupState& group(std::uint16_t index) { return is_opaque() ? opaque : groups.at(index); }
  codec::BlockShape shape(std::uint16_t group_index, std::uint64_t raw_bytes) const;
};

class Namespaces {
 public:
  explicit Namespaces(Core& core) : core_(core) {}

  /// Takes over what the store knows; tenants get their ids from the sessions later.
  Status load();
  /// Registers (or finds) a namespace; the store's write happens on this thread, it is rare.
  Result<Namespace*> add(const NamespaceSpec& spec, TenantId tenant);
  /// The namespace, if it is the caller's and its weights are current.
  Result<Namespace*> find(const Caller& caller, NamespaceId ns);
  /// As find(), for administration: outdated ones too.
  Result<Namespace*> find_any_epoch(const Caller& caller, NamespaceId ns);
  /// Any namespace by id, for internal work.
  Namespace* get(NamespaceId ns);
  std::vector<Namespace*> of_tenant(const Caller& caller);

 private:
  Namespace* adopt(storage::NamespaceRecord record);
  Status load_tables(Namespace& ns);

  Core& core_;
  std::unordered_map<NamespaceId, std::unique_ptr<Namespace>> by_id_;
};

/// Codec tables as the store keeps them: group u16, then the codec's own bytes.
ByteVector pack_tables(std::uint16_t group, const codec::StaticTables& tables);

}  // namespace kvstrata::daemon
