#include "daemon/engine/loader.h"

#include <algorithm>
#include <utility>

namespace kvstrata::daemon {

namespace {

constexpr std::uint64_t bytes_in_flight_max = 256_MiB;
/// Payloads are not cut into smaller parts: waking a worker costs some 10 us.
constexpr std::uint64_t part_bytes_min = 512_KiB;

}  // namespace

void Loader::load(const BlockPtr& block, std::function<void(Status)> done) {
  if (block->host == Block::HostCopy::ready) {
    done({});
    return;
  }
  if (block->host == Block::HostCopy::filling) {
    block->on_filled.push_back(std::move(done));
    return;
  }
  if (!block->entry) {
    done(Error(ErrorKind::not_found, "the block is gone"));
    return;
  }
  if (const Status allocated = directory_.allocate(block); !allocated) {
    done(allocated);
    return;
  }
  block->on_filled.push_back(std::move(done));
  directory_.hold(block);
  waiting_.push_back(block);
  pump();
}

void Loader::pump() {
  while (!waiting_.empty() &&
         (bytes_in_flight_ == 0 ||
          bytes_in_flight_ + waiting_.front()->raw_bytes <= bytes_in_flight_max)) {
    const BlockPtr block = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_in_flight_ += block->raw_bytes;
    start(block);
  }
}

void Loader::start(const BlockPtr& block) {
  Namespace* ns = namespaces_.get(block->key.ns);
  KV_CHECK(ns != nullptr, "blocks belong to registered namespaces");
  const codec::BlockShape shape = ns->shape(block->key.group, block->raw_bytes);
  const auto tables = ns->group(block->key.group).tables;
  const Target target{shape, tables, block->entry->table,
                      MutableBytes(block->slot.data, block->raw_bytes)};
  core_.store->read(
      block->key, *block->entry, [this, block, target](Result<storage::ReadRecord> record) {
        if (!record) {
          core_.to_control([this, block, error = record.error()] { finish(block, {error, {}}); });
          return;
        }
        decode(block, target, std::move(*record));
      });
}

// On the store's reader. Parts of a block are queued side by side, so that all workers are at the
// first block, and the blocks come in the order in which they were read.
void Loader::decode(const BlockPtr& block, Target target, storage::ReadRecord record) {
  const auto parts = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      target.payload.size() / part_bytes_min, 1, core_.options.worker_threads));
  const auto decoding = std::make_shared<Decoding>(std::move(target), std::move(record), parts);
  for (std::uint32_t i = 0; i < parts; ++i) {
    core_.workers->post([this, block, decoding, part = codec::FramePart{i, parts}] {
      if (Status status = decode_part(*decoding, part); !status) {
        const std::scoped_lock lock(decoding->mutex);
        if (decoding->status) decoding->status = std::move(status);
      }
      if (decoding->open.fetch_sub(1) != 1) return;  // others are not done
      const ByteView identity = decoding->record.identity;
      auto decoded = std::make_shared<Decoded>(
          Decoded{decoding->status, ByteVector(identity.begin(), identity.end())});
      core_.to_control([this, block, decoded] { finish(block, std::move(*decoded)); });
    });
  }
}

// On a worker.
Status Loader::decode_part(const Decoding& decoding, codec::FramePart part) {
  const Target& target = decoding.target;
  const CodecTables::Parameters parameters = target.tables->find(target.table);
  if (target.table != TableId{} && parameters == nullptr) {
    return Error(ErrorKind::corrupt, "the frame's codec parameters are missing");
  }
  return codec::decode_frame_part(target.shape, parameters.get(), decoding.record.frame,
                                  target.payload, part);
}

void Loader::finish(const BlockPtr& block, Decoded decoded) {
  bytes_in_flight_ -= block->raw_bytes;
  if (decoded.status) {
    block->identity = std::move(decoded.identity);
    core_.counters.load_bytes_disk += block->raw_bytes;
    ++core_.counters.load_blocks_disk;
    directory_.publish(block);
  } else {
    const Error why = decoded.status.error();
    ++core_.counters.load_failures;
    directory_.abandon(block, why);
    if (why.kind() == ErrorKind::corrupt) {
      ++core_.counters.corrupt_blocks;
      core_.workers->post([this, key = block->key] {
        // A miss from now on; an error here leaves it to the next reader to find again.
        (void)core_.store->erase(std::span(&key, 1), false, true);
      });
    }
    if (why.kind() == ErrorKind::corrupt || why.kind() == ErrorKind::not_found) {
      directory_.lost_record(block->key);
    }
  }
  directory_.unhold(block);
  pump();
}

}  // namespace kvstrata::daemon
