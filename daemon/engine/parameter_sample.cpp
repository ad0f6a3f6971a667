#include "daemon/engine/parameter_sample.h"

#include <future>
#include <random>
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

}  // namespace

std::vector<SampledBlock> sample_blocks(storage::Store& store, const FitTarget& target,
                                        std::size_t blocks_max, std::uint64_t bytes_max,
                                        const std::atomic<bool>& cancelled) {
  std::vector<SampledBlock> blocks;
  std::uint64_t bytes = 0;
  const BlockKey start = random_key(target);
  std::optional<BlockKey> after = start;
  bool wrapped = false;
  while (blocks.size() < blocks_max && !cancelled) {
    const auto page = store.list(target.ns, after, page_blocks);
    if (!page) break;
    for (const auto& [key, entry] : *page) {
      const bool is_round = wrapped && start.digest < key.digest;
      if (is_round || blocks.size() == blocks_max || cancelled) return blocks;
      if (key.group != target.group || entry.raw_bytes == 0) continue;
      if (bytes + entry.raw_bytes > bytes_max) return blocks;
      auto block = read_block(store, target, key, entry);
      if (!block) continue;
      bytes += entry.raw_bytes;
      blocks.push_back(std::move(*block));
    }
    const bool at_end = page->size() < page_blocks;
    if (at_end && wrapped) break;
    wrapped |= at_end;
    after = at_end ? std::optional<BlockKey>{} : page->back().first;
  }
  return blocks;
}

}  // namespace kvstrata::daemon
