// Namespaces keeps what the engine needs of each registered namespace at run time: shapes of its
// blocks, the codec parameters in use, whether its weights are still current. Control thread only,
// except CodecTables, which locks itself.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codec/codec.h"
#include "daemon/engine/core.h"
#include "daemon/engine/gain_watch.h"

namespace kvstrata::daemon {

/// What the codecs learned of one layer group: the parameters that new blocks are coded with, and
/// older ones that stored frames still need. Any thread.
class CodecTables {
 public:
  using Parameters = std::shared_ptr<const codec::CodecParameters>;
  struct Stored {
    TableId id;  ///< 0 and null: none fitted yet
    Parameters parameters;
  };

  Stored current(codec::CodecId codec) const;  ///< the newest of this codec
  Parameters find(TableId id) const;
  void add(TableId id, Parameters parameters);
  void forget(TableId id);  ///< the store has it no more: no block needs it

 private:
  mutable std::mutex mutex_;
  std::map<TableId, Parameters> by_id_;
};

/// When parameters of a codec are fitted again.
struct FitSchedule {
  std::uint64_t due_bytes = 0;  ///< of payload stored in this run; 0: not known yet
  bool drifted = false;         ///< since blocks changed, and not because there are many more
  GainWatch watch;
};

struct LayerGroupState {
  codec::BlockShape shape;
  std::uint64_t block_bytes = 0;
  std::shared_ptr<CodecTables> tables = std::make_shared<CodecTables>();
  bool fitting = false;            ///< its first tables, which blocks wait for
  bool refitting = false;          ///< in the background
  std::uint64_t stored_bytes = 0;  ///< of payload that became durable in this run
  FitSchedule tables_fit, linear_fit;
  std::deque<BlockKey> recent;  ///< the last blocks that became durable
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

/// Codec parameters as the store keeps them: group u16, then the codec's own bytes.
ByteVector pack_parameters(std::uint16_t group, const codec::CodecParameters& parameters);

}  // namespace kvstrata::daemon
