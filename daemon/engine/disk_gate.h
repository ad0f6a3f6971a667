// A DiskGate stands between what becomes visible and the Flusher. Blocks its policy admits are
// written; the others stay in host memory alone, where they may be evicted at any time, until they
// are wanted again or a promise (FLUSH, durable, PIN) needs them on disk. Control thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/engine/admission.h"
#include "daemon/engine/block_directory.h"
#include "daemon/engine/flusher.h"

namespace kvstrata::daemon {

class DiskGate {
 public:
  DiskGate(Core& core, BlockDirectory& directory, Flusher& flusher);

  /// Makes the policy that the options name; once, when the store is open.
  Status open();
  /// Looks about each second how full the disk is, for a policy that asks.
  void tick();

  /// A block became visible (again); it gets the next sequence. `must_write`: a promise needs it
  /// on disk, whatever the policy says.
  void add(const BlockPtr& block, bool must_write);
  /// Blocks were wanted again, a prefix from its head. Those that were declined are admitted, if
  /// the policy agrees, as long as writing keeps up; the rest may be at their next use.
  void used_again(std::span<const BlockPtr> blocks);
  /// Writes the block, if it is not on disk or on its way, and before it what it continues and was
  /// declined.
  void admit(const BlockPtr& block);
  /// FLUSH: admits what the caller's tenant made visible up to `sequence` and is still in memory
  /// (none: everything), then as Flusher::flush().
  void flush(const Caller& caller, std::optional<Sequence> sequence, Done<Sequence> done);

  std::string_view policy() const { return policy_->name(); }
  std::uint64_t unadmitted_blocks() const { return unadmitted_.size(); }
  std::uint64_t unadmitted_bytes() const { return unadmitted_bytes_; }

 private:
  /// By tenant, since a FLUSH is a tenant's own; then in the order they became visible.
  using Unadmitted = std::map<std::pair<TenantId, Sequence>, BlockPtr>;

  void decline(const BlockPtr& block);
  /// The block is no longer one of `unadmitted_`.
  void take_out(Block& block);
  /// Takes out what is to be written, in that order: the unadmitted ancestors, then the block.
  void take_with_ancestors(const BlockPtr& block, std::vector<BlockPtr>& taken);
  void take_ancestors(const Block& block, std::vector<BlockPtr>& taken);
  /// The tenant's oldest, or the end.
  Unadmitted::const_iterator first_of(TenantId tenant) const;
  Sequence before_first_unadmitted(TenantId tenant) const;
  DiskRoom look_at_room() const;

  Core& core_;
  BlockDirectory& directory_;
  Flusher& flusher_;
  std::unique_ptr<AdmissionPolicy> policy_;
  Unadmitted unadmitted_;
  std::uint64_t unadmitted_bytes_ = 0;
  DiskRoom room_ = DiskRoom::scarce;
  bool looks_at_room_ = false;
  bool looking_ = false;
  MonotonicTime looked_{};
};

/// Scarce: of the segments that the budget has room for, an eighth, or two, and those that reclaim
/// keeps free are all that can still be opened.
DiskRoom room_of(std::uint64_t segments_openable, std::uint64_t segments_max);

}  // namespace kvstrata::daemon
