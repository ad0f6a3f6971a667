#include "daemon/engine/parameter_sample.h"

#include <algorithm>
#include <future>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "daemon/engine/block_position.h"

namespace kvstrata::daemon {

namespace {

constexpr std::size_t page_blocks = 256;

Result<storage::ReadRecord> read_now(storage::Store& store, const BlockKey& key,
                                     const storage::IndexEntry& entry) {
  std::promise<Result<storage::ReadRecord>> promise;
  store.read(key, entry,
             [&](Result<storage::ReadRecord> record) { promise.set_value(std::move(record)); });
  return promise.get_future().get();
}

Result<SampledBlock> read_block(storage::Store& store, const FitTarget& target, const BlockKey& key,
                                const storage::IndexEntry& entry) {
  KV_ASSIGN(const storage::ReadRecord record, read_now(store, key, entry));
  const CodecTables::Parameters parameters = target.tables->find(entry.table);
  SampledBlock block{ByteVector(entry.raw_bytes), 0};
  const codec::BlockShape shape = target.shape_of(entry.raw_bytes);
  KV_TRY(codec::decode_frame(shape, parameters.get(), record.frame, block.payload));
  if (!target.opaque) {
    block.first_position = find_first_position(store, key, entry.parent, target.shape.tokens);
  }
  return block;
}

/// Blocks lie in the order of their digests, so from a random one on they are a random choice.
BlockKey random_key(const FitTarget& target) {
  std::random_device random;
  BlockKey key{target.ns, {}, target.group};
  for (std::byte& byte : key.digest.bytes) byte = static_cast<std::byte>(random());
  return key;
}

/// Collects blocks until there are enough.
class Sample {
 public:
  Sample(storage::Store& store, const FitTarget& target, std::size_t blocks_max,
         std::uint64_t bytes_max, const std::atomic<bool>& cancelled)
      : store_(store),
        target_(target),
        blocks_max_(blocks_max),
        bytes_max_(bytes_max),
        cancelled_(cancelled) {}

  void add_recent() {
    const std::size_t count = std::min(target_.recent.size(), blocks_max_ / 2);
    for (std::size_t i = 0; i < count; ++i) {
      const BlockKey& key = target_.recent[i * target_.recent.size() / count];
      std::optional<storage::IndexEntry> entry;
      const bool found = store_.find(std::span(&key, 1), std::span(&entry, 1)).ok() && entry;
      if (bytes_ > bytes_max_ / 2 || is_full()) return;
      if (found && !taken_.contains(key.digest)) add(key, *entry);
    }
  }

  void add_random() {
    const BlockKey start = random_key(target_);
    std::optional<BlockKey> after = start;
    bool wrapped = false;
    while (!is_full()) {
      const auto page = store_.list(target_.ns, after, page_blocks);
      if (!page) return;
      for (const auto& [key, entry] : *page) {
        if (is_full() || (wrapped && start.digest < key.digest)) return;
        if (key.group == target_.group && !taken_.contains(key.digest)) add(key, entry);
      }
      const bool at_end = page->size() < page_blocks;
      if (at_end && wrapped) return;
      wrapped |= at_end;
      after = at_end ? std::optional<BlockKey>{} : page->back().first;
    }
  }

  std::vector<SampledBlock> blocks;

 private:
  bool is_full() const { return out_of_room_ || blocks.size() >= blocks_max_ || cancelled_; }

  void add(const BlockKey& key, const storage::IndexEntry& entry) {
    if (entry.raw_bytes == 0) return;
    out_of_room_ = bytes_ + entry.raw_bytes > bytes_max_;
    if (out_of_room_) return;
    auto block = read_block(store_, target_, key, entry);
    if (!block) return;
    bytes_ += entry.raw_bytes;
    taken_.insert(key.digest);
    blocks.push_back(std::move(*block));
  }

  storage::Store& store_;
  const FitTarget& target_;
  const std::size_t blocks_max_;
  const std::uint64_t bytes_max_;
  const std::atomic<bool>& cancelled_;
  std::uint64_t bytes_ = 0;
  bool out_of_room_ = false;
  std::set<Hash256> taken_;
};

}  // namespace

std::vector<SampledBlock> sample_blocks(storage::Store& store, const FitTarget& target,
                                        std::size_t blocks_max, std::uint64_t bytes_max,
                                        const std::atomic<bool>& cancelled) {
  Sample sample(store, target, blocks_max, bytes_max, cancelled);
  sample.add_recent();
  sample.add_random();
  return std::move(sample.blocks);
}

}  // namespace kvstrata::daemon
