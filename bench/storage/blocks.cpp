#include "bench/storage/blocks.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <random>

#include "bench/common/process.h"
#include "bench/storage/room.h"
#include "codec/codec.h"
#include "storage/segment/record.h"

namespace kvstrata::bench {

namespace {

constexpr std::uint32_t block_tokens = 16;
constexpr std::uint64_t layer_bytes = 32_KiB;  // 8 heads of 64 + 64 channels of 2 bytes

NamespaceSpec spec_of(std::uint64_t payload_bytes) {
  NamespaceSpec spec;
  spec.tenant = "bench";
  spec.model.fingerprint = "bench-" + std::to_string(payload_bytes);
  spec.model.block_tokens = block_tokens;
  const auto layers = static_cast<std::uint32_t>(payload_bytes / layer_bytes);
  spec.model.groups = {{GroupKind::full_attention, layers, 8, 64, 64, 0}};
  return spec;
}

ByteVector identity_of(std::uint64_t number) {
  ByteVector identity;
  for (std::uint32_t i = 0; i < block_tokens; ++i) {
    append_le(identity, static_cast<std::uint32_t>(number * block_tokens + i));
  }
  return identity;
}

}  // namespace

Blocks::Blocks(std::uint64_t payload_bytes, std::uint64_t chain_blocks)
    : chain_blocks_(chain_blocks),
      spec_(spec_of(payload_bytes)),
      shape_(codec::BlockShape::of(spec_.model, spec_.model.groups.front())),
      payload_(shape_.raw_bytes()),
      frame_(codec::frame_bytes_max(shape_)) {
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < payload_.size(); i += sizeof(std::uint64_t)) {
    store_le(payload_.data() + i, static_cast<std::uint64_t>(random()));
  }
  payload_xxh3_ = storage::checksum(payload_);
  frame_.resize(
      must(codec::encode_frame(shape_, nullptr, payload_, payload_xxh3_, frame_), "encode"));
}

BlockKey Blocks::key(NamespaceId ns, std::uint64_t number) {
  BlockKey key{ns, {}, 0};
  std::mt19937_64 random(number);
  for (std::size_t i = 0; i < key.digest.bytes.size(); i += sizeof(std::uint64_t)) {
    store_le(key.digest.bytes.data() + i, static_cast<std::uint64_t>(random()));
  }
  return key;
}

storage::AppendRequest Blocks::put(NamespaceId ns, std::uint64_t number) const {
  storage::AppendRequest request = put_unfilled(ns, number);
  std::memcpy(request.frame.data(), frame_.data(), frame_.size());
  return request;
}

storage::AppendRequest Blocks::put_unfilled(NamespaceId ns, std::uint64_t number) const {
  storage::AppendRequest request;
  request.key = key(ns, number);
  if (number % chain_blocks_ != 0) request.parent = key(ns, number - 1).digest;
  request.identity = identity_of(number);
  request.frame = storage::FrameBuffer(frame_.size());
  request.frame_bytes = frame_.size();
  request.raw_bytes = payload_.size();
  request.payload_xxh3 = payload_xxh3_;
  return request;
}

bool Blocks::intact(std::uint64_t number, const storage::ReadRecord& record) const {
  ByteVector decoded(payload_.size());
  return std::ranges::equal(record.identity, identity_of(number)) &&
         codec::decode_frame(shape_, nullptr, record.frame, decoded) && decoded == payload_;
}

void put_all(storage::Store& store, NamespaceId ns, const Blocks& blocks, std::uint64_t first,
             std::uint64_t end) {
  Room room(appends_max);
  for (std::uint64_t number = first; number < end; ++number) {
    room.take(1);
    must(store.append(blocks.put(ns, number),
                      [&](const Result<storage::IndexEntry>& entry) {
                        must(entry ? Status() : Status(entry.error()), "put");
                        room.give_back();
                      }),
         "append");
  }
  must(store.flush(), "flush");
}

std::optional<storage::IndexEntry> find(const storage::Store& store, const BlockKey& key) {
  std::optional<storage::IndexEntry> entry;
  must(store.find({&key, 1}, {&entry, 1}), "find");
  return entry;
}

Result<storage::ReadRecord> read(storage::Store& store, const BlockKey& key,
                                 const storage::IndexEntry& entry) {
  std::promise<Result<storage::ReadRecord>> ended;
  store.read(key, entry,
             [&](Result<storage::ReadRecord> record) { ended.set_value(std::move(record)); });
  return ended.get_future().get();
}

}  // namespace kvstrata::bench
