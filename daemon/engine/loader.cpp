#include "daemon/engine/loader.h"

namespace kvstrata::daemon {

namespace {

constexpr std::uint64_t bytes_in_flight_max = 256_MiB;

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
        auto kept = std::make_shared<storage::ReadRecord>(std::move(*record));
        core_.workers->post([this, block, target, kept] {
          auto decoded = std::make_shared<Decoded>(decode(target, *kept));
          core_.to_control([this, block, decoded] { finish(block, std::move(*decoded)); });
        });
      });
}

// On a worker.
Loader::Decoded Loader::decode(const Target& target, const storage::ReadRecord& record) {
  const CodecTables::Parameters parameters = target.tables->find(target.table);
  if (target.table != TableId{} && parameters == nullptr) {
    return {Error(ErrorKind::corrupt, "the frame's codec parameters are missing"), {}};
  }
  Status status = codec::decode_frame(target.shape, parameters.get(), record.frame, target.payload);
  if (!status) return {std::move(status), {}};
  return {{}, ByteVector(record.identity.begin(), record.identity.end())};
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
