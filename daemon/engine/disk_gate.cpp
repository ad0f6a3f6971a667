#include "daemon/engine/disk_gate.h"

#include <algorithm>
#include <utility>

#include "storage/size_plan.h"

namespace kvstrata::daemon {

namespace {

constexpr std::chrono::seconds look_period{1};

}  // namespace

DiskRoom room_of(std::uint64_t segments_openable, std::uint64_t segments_max) {
  const std::uint64_t left = std::max<std::uint64_t>(segments_max / 8, 2);
  return segments_openable <= left + storage::reserve_segments ? DiskRoom::scarce
                                                               : DiskRoom::plenty;
}

DiskGate::DiskGate(Core& core, BlockDirectory& directory, Flusher& flusher)
    : core_(core), directory_(directory), flusher_(flusher) {
  directory_.on_forgotten([this](Block& block) {
    if (block.unadmitted) take_out(block);
  });
}

Status DiskGate::open() {
  KV_ASSIGN(policy_, make_admission_policy(core_.options.admission, core_.clock));
  looks_at_room_ = core_.options.admission != "all" && core_.options.admit_all_until_full;
  if (looks_at_room_) room_ = look_at_room();
  return {};
}

// Counting the index's files touches the disk, so a worker does it.
void DiskGate::tick() {
  if (!looks_at_room_ || looking_ || core_.clock.now() - looked_ < look_period) return;
  looked_ = core_.clock.now();
  looking_ = true;
  core_.on_worker([this] { return look_at_room(); },
                  [this](DiskRoom room) {
                    looking_ = false;
                    room_ = room;
                  });
}

// Any thread. Segments are what a store runs out of: the index has a share of its own.
DiskRoom DiskGate::look_at_room() const {
  const storage::StoreStats stats = core_.store->stats();
  return room_of(stats.segments_openable, stats.segments_max);
}

void DiskGate::add(const BlockPtr& block, bool must_write) {
  block->sequence = flusher_.take_sequence();
  const bool admitted = policy_->admits_new(block->key, room_);
  if (!admitted && !must_write && !block->must_write) {
    decline(block);
    return;
  }
  std::vector<BlockPtr> taken;
  take_ancestors(*block, taken);
  taken.push_back(block);
  flusher_.add(taken);
}

void DiskGate::decline(const BlockPtr& block) {
  block->unadmitted = true;
  unadmitted_.emplace(std::pair(block->tenant, block->sequence), block);
  unadmitted_bytes_ += block->raw_bytes;
  ++core_.counters.admission_declined_blocks;
}

void DiskGate::take_out(Block& block) {
  block.unadmitted = false;
  unadmitted_bytes_ -= block.raw_bytes;
  const std::size_t erased = unadmitted_.erase(std::pair(block.tenant, block.sequence));
  KV_CHECK(erased == 1, "a declined block is kept until it is admitted or forgotten");
}

void DiskGate::used_again(std::span<const BlockPtr> blocks) {
  std::vector<BlockPtr> taken;
  std::uint64_t bytes = 0;
  for (const BlockPtr& block : blocks) {
    if (!block->unadmitted) continue;
    // One that is too large to ever wait goes when nothing else does.
    const bool alone = bytes == 0 && flusher_.dirty_bytes() == 0;
    if (!alone && !flusher_.keeps_up(bytes + block->raw_bytes)) break;
    if (!policy_->admits_again(block->key)) continue;
    const auto first = static_cast<std::ptrdiff_t>(taken.size());
    take_with_ancestors(block, taken);
    for (auto at = taken.begin() + first; at != taken.end(); ++at) bytes += (*at)->raw_bytes;
  }
  if (!taken.empty()) flusher_.add(taken);
}

void DiskGate::admit(const BlockPtr& block) {
  const bool lost = !block->unadmitted && !block->dirty && !block->dead && !block->entry &&
                    block->host == Block::HostCopy::ready;
  if (lost) {  // its record was reclaimed, or could not be written
    add(block, true);
    return;
  }
  std::vector<BlockPtr> taken;
  if (block->unadmitted) {
    take_with_ancestors(block, taken);
  } else {
    take_ancestors(*block, taken);
  }
  if (!taken.empty()) flusher_.add(taken);
}

void DiskGate::take_with_ancestors(const BlockPtr& block, std::vector<BlockPtr>& taken) {
  take_ancestors(*block, taken);
  take_out(*block);
  taken.push_back(block);
  ++core_.counters.admission_later_blocks;
}

// A prefix is found from its head: a block on disk is worth little there without what it continues.
// The first ancestor that is admitted, or not in memory, ends the search.
void DiskGate::take_ancestors(const Block& block, std::vector<BlockPtr>& taken) {
  const auto first = static_cast<std::ptrdiff_t>(taken.size());
  std::optional<Hash256> parent = block.parent;
  while (parent) {
    const BlockPtr at = directory_.find({block.key.ns, *parent, block.key.group});
    if (at == nullptr) break;
    parent = at->parent;
    if (at->unadmitted) {
      take_out(*at);
      taken.push_back(at);
      ++core_.counters.admission_later_blocks;
      continue;
    }
    const bool is_being_put = at->host == Block::HostCopy::filling && !at->entry;
    if (!is_being_put || std::exchange(at->must_write, true)) break;
  }
  std::reverse(taken.begin() + first, taken.end());
}

DiskGate::Unadmitted::const_iterator DiskGate::first_of(TenantId tenant) const {
  const auto first = unadmitted_.lower_bound(std::pair(tenant, Sequence{}));
  const bool is_theirs = first != unadmitted_.end() && first->first.first == tenant;
  return is_theirs ? first : unadmitted_.end();
}

Sequence DiskGate::before_first_unadmitted(TenantId tenant) const {
  const auto first = first_of(tenant);
  if (first == unadmitted_.end()) return flusher_.last_sequence();
  return Sequence{first->first.second.value - 1};
}

void DiskGate::flush(const Caller& caller, std::optional<Sequence> sequence, Done<Sequence> done) {
  const Sequence last = flusher_.last_sequence();
  const Sequence wanted = sequence ? std::min(*sequence, last) : last;
  std::vector<BlockPtr> taken;
  for (auto at = first_of(caller.tenant); at != unadmitted_.end(); at = first_of(caller.tenant)) {
    if (at->first.second > wanted) break;
    take_with_ancestors(BlockPtr(at->second), taken);
  }
  flusher_.connection_writes(caller.connection);
  for (const BlockPtr& block : taken) Flusher::rely_on(*block, caller.connection);
  if (!taken.empty()) flusher_.add(taken);
  flusher_.flush(caller.connection, wanted,
                 [this, tenant = caller.tenant, done = std::move(done)](Result<Sequence> durable) {
                   // What became visible since and was declined is not durable.
                   if (durable) durable = std::min(*durable, before_first_unadmitted(tenant));
                   done(std::move(durable));
                 });
}

}  // namespace kvstrata::daemon
