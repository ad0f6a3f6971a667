#include "storage/group_commit.h"

#include <algorithm>

#include "storage/mutant.h"
#include "storage/removal.h"

namespace kvstrata::storage {

namespace {

constexpr Milliseconds wait_step{1000};

RecordHeader header_of(const Append& append, std::uint16_t extent, const RecordLocation& where,
                       std::uint64_t sequence) {
  const AppendRequest& request = append.request;
  RecordHeader header{};
  header.kind = append.kind;
  header.codec = request.codec;
  if (request.parent) header.flags |= record_has_parent;
  if (request.pinned) header.flags |= record_pinned;
  header.group = request.key.group;
  header.ns = request.key.ns.value;
  header.table = request.table.value;
  header.segment = where.segment.value;
  header.generation = where.generation;
  header.sequence = sequence;
  header.offset = where.offset;
  header.digest = request.key.digest;
  header.parent = request.parent.value_or(Hash256{});
  header.frame_bytes = append.extents.frame_bytes_of(extent, request.frame_bytes);
  header.frame_total_bytes = request.frame_bytes;
  header.extent_index = extent;
  header.extent_count = append.extents.count;
  header.raw_bytes = request.raw_bytes;
  header.payload_xxh3 = request.payload_xxh3;
  header.frame_xxh3 = append.frame_xxh3[extent];
  header.created_unix_ms = append.created_unix_ms;
  header.expires_unix_ms = request.expires_unix_ms;
  return header;
}

}  // namespace

IndexEntry entry_of(const Append& append) {
  const AppendRequest& request = append.request;
  IndexEntry entry;
  entry.where = append.places.front();
  entry.more.assign(append.places.begin() + 1, append.places.end());
  entry.parent = request.parent;
  entry.raw_bytes = request.raw_bytes;
  entry.frame_bytes = request.frame_bytes;
  entry.payload_xxh3 = request.payload_xxh3;
  entry.codec = request.codec;
  entry.table = request.table;
  entry.created_unix_ms = append.created_unix_ms;
  entry.expires_unix_ms = request.expires_unix_ms;
  entry.pinned = request.pinned;
  return entry;
}

void GroupCommit::add(const AppendPtr& append) {
  open_.appends.push_back(append);
  if (append->kind == RecordKind::block) open_.keys.insert(append->request.key);
  for (std::uint16_t i = 0; i < append->extents.count; ++i) {
    const Result<SegmentLog::Place> place = log_.place(append->record_bytes_of(i));
    if (!place) {
      append->written = place.error();
      return;
    }
    append->places.push_back(place->where);
    write_extent(append, i, *place);
    open_.bytes += place->where.bytes;
  }
}

void GroupCommit::write_extent(const AppendPtr& append, std::uint16_t extent,
                               const SegmentLog::Place& place) {
  RecordHeader header = header_of(*append, extent, place.where, log_.next_sequence());
  const std::uint64_t identity_bytes = extent == 0 ? append->request.identity.size() : 0;
  const RecordShape shape = record_shape(identity_bytes, header.frame_bytes, extent);
  if (shape.frame_offset % record_alignment == 0 && header.frame_bytes > 0) {
    write_split(append, header, place);
  } else {
    write_packed(append, header, place);
  }
}

// Small records are copied into one buffer and written by one request.
void GroupCommit::write_packed(const AppendPtr& append, RecordHeader& header,
                               const SegmentLog::Place& place) {
  const AppendRequest& request = append->request;
  const auto buffer = take_buffer(append, place, place.where.bytes);
  if (!buffer) return;
  std::memset(buffer->data(), 0, buffer->size());
  write_record_head(header, request.identity, buffer->data());
  if (request.frame_bytes > 0) {
    std::memcpy(buffer->data() + header.frame_offset, request.frame.data(), request.frame_bytes);
  }
  start_write(append, place, 0, buffer->data(), buffer->size(), buffer);
}

// Large frames are written from where they lie: the first behind a head in the room before it, what
// follows behind a head of its own.
void GroupCommit::write_split(const AppendPtr& append, RecordHeader& header,
                              const SegmentLog::Place& place) {
  const AppendRequest& request = append->request;
  const bool first = header.extent_index == 0;
  const ByteView identity = first ? ByteView(request.identity) : ByteView();
  const std::uint64_t head_bytes =
      record_shape(identity.size(), header.frame_bytes, header.extent_index).frame_offset;
  std::byte* part = request.frame.data() + append->extents.frame_start_of(header.extent_index);
  const std::uint64_t padded = round_up(header.frame_bytes, record_alignment);
  // What the allocator left behind the frame must not reach the disk.
  if (append->extents.frame_start_of(header.extent_index) + header.frame_bytes ==
      request.frame_bytes) {
    std::memset(part + header.frame_bytes, 0, padded - header.frame_bytes);
  }
  if (first && head_bytes <= FrameBuffer::head_room_bytes) {
    std::byte* head = part - head_bytes;
    std::memset(head, 0, head_bytes);
    write_record_head(header, identity, head);
    start_write(append, place, 0, head, head_bytes + padded, nullptr);
    return;
  }
  const auto head = take_buffer(append, place, head_bytes);
  if (!head) return;
  std::memset(head->data(), 0, head->size());
  write_record_head(header, identity, head->data());
  start_write(append, place, 0, head->data(), head->size(), head);
  start_write(append, place, head_bytes, part, padded, nullptr);
}

// Null: there is no memory, and the append has failed. Its place stays empty, so nothing may
// follow.
std::shared_ptr<AlignedBuffer> GroupCommit::take_buffer(const AppendPtr& append,
                                                        const SegmentLog::Place& place,
                                                        std::uint64_t bytes) {
  Result<AlignedBuffer> buffer = AlignedBuffer::take(bytes);
  if (buffer) return std::make_shared<AlignedBuffer>(std::move(*buffer));
  append->written = buffer.error();
  log_.seal(place.where.segment, {});
  return nullptr;
}

void GroupCommit::start_write(const AppendPtr& append, const SegmentLog::Place& place,
                              std::uint64_t offset, std::byte* buffer, std::uint64_t bytes,
                              std::shared_ptr<AlignedBuffer> owner) {
  const SegmentId segment = place.where.segment;
  io_.add({IoOperation::write, place.file, place.where.offset + offset, buffer, bytes, 0},
          [this, append, segment, owner = std::move(owner)](const Status& status) {
            if (status) return;
            ++state_.counters.write_errors;
            if (append->written) append->written = status;
            log_.seal(segment, {});
          });
}

// Ahead is written once a wait and not again and again, for many a disk syncs only when it has
// nothing left to write.
void GroupCommit::wait_until(const std::function<bool()>& ended, const WriteAhead& write_ahead) {
  if (ended()) return;
  io_.poll(0, Milliseconds(0));  // what is waited for goes first
  write_ahead();
  while (!ended()) io_.poll(1, wait_step);
}

Status GroupCommit::commit(const WriteAhead& write_ahead) {
  closing_ = std::exchange(open_, {});
  ++number_;
  log_.begin_commit();
  const std::uint64_t written = io_.mark();
  wait_until([&] { return io_.writes_ended_before(written); }, write_ahead);
  if (!mutant(Mutant::index_before_data)) sync_data(write_ahead);
  state_.at_point("after-data-sync");
  write_ahead();
  const Status status = write_index();
  if (mutant(Mutant::index_before_data)) sync_data(write_ahead);
  if (status) {
    log_.committed();
    state_.at_point("after-index-write");
  } else {
    io_.drain();
    log_.abandon();
  }
  finish(status);
  return status;
}

void GroupCommit::sync_data(const WriteAhead& write_ahead) {
  state_.at_point("before-data-sync");
  std::size_t syncs = 0;
  for (const auto& [unsynced, file] : log_.unsynced()) {
    if (mutant(Mutant::no_data_sync)) break;
    ++syncs;
    io_.add({IoOperation::data_sync, file, 0, nullptr, 0, 0},
            [this, &syncs, segment = unsynced](const Status& status) {
              --syncs;
              if (status) return;
              ++state_.counters.write_errors;
              ++state_.counters.condemned_segments;
              log_.condemn(segment);
              lost_.push_back(segment);
            });
  }
  wait_until([&] { return syncs == 0; }, write_ahead);
  fail_lost_writes();
}

void GroupCommit::fail_lost_writes() {
  for (const AppendPtr& append : closing_.appends) {
    for (const RecordLocation& where : append->places) {
      const Status status = log_.error_of(where.segment);
      if (!status && append->written) append->written = status;
    }
  }
}

Status GroupCommit::write_index() {
  KV_ASSIGN(IndexChange change, IndexChange::begin(state_));
  log_.record(change);
  for (const SegmentId segment : lost_) {
    KV_ASSIGN(const std::vector<BlockKey> keys, remove_blocks_of(state_.index, change, segment));
    dropped_.insert(dropped_.end(), keys.begin(), keys.end());
  }
  KV_TRY(put_appends(change));
  state_.at_point("before-index-write");
  return change.commit();
}

Status GroupCommit::put_appends(IndexChange& change) {
  std::vector<BlockKey> keys;
  for (const AppendPtr& append : closing_.appends) keys.push_back(append->request.key);
  std::vector<std::optional<IndexEntry>> existing(keys.size());
  KV_TRY(state_.index.find(keys, existing));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Append& append = *closing_.appends[i];
    if (append.written && append.cancelled) {
      append.written = Error(ErrorKind::cancelled, "the block was erased before it was durable");
    }
    if (!append.written) continue;
    switch (append.kind) {
      case RecordKind::block: put_block(change, append, existing[i]); break;
      case RecordKind::table:
        if (!still_there(append)) {
          append.written = Error(ErrorKind::cancelled, "the table was removed while it was moved");
          break;
        }
        change.put_table(table_of(append.request.key), entry_of(append));
        break;
      case RecordKind::name_space: {
        KV_ASSIGN(const NamespaceSpec spec, parse_namespace_bytes(append.request.identity));
        change.put_namespace(append.request.key.ns,
                             {append.created_unix_ms, append.places.front(), spec});
        break;
      }
    }
  }
  return {};
}

bool GroupCommit::still_there(const Append& table) const {
  if (!table.moved_from) return true;
  const auto known = state_.catalog.find_table(table_of(table.request.key));
  return known && known->entry.where == *table.moved_from;
}

void GroupCommit::put_block(IndexChange& change, Append& append,
                            const std::optional<IndexEntry>& existing) {
  const BlockKey& key = append.request.key;
  if (append.moved_from) {
    if (!existing || existing->where != *append.moved_from) {
      append.written = Error(ErrorKind::cancelled, "the block changed while it was moved");
      return;
    }
    append.request.pinned = existing->pinned;
    append.request.expires_unix_ms = existing->expires_unix_ms;
  }
  if (existing) change.remove_block(key, *existing);
  change.put_block(key, entry_of(append));
}

void GroupCommit::finish(const Status& index_status) {
  bool any_written = false;
  std::optional<Error> failure;
  for (const AppendPtr& append : closing_.appends) {
    if (append->written && !index_status) append->written = index_status;
    if (append->written) {
      any_written = true;
      count(*append);
      // What a condemned segment took with it, but the group wrote anew, is not gone.
      std::erase(dropped_, append->request.key);
    } else if (append->written.error().kind() != ErrorKind::cancelled) {
      failure = append->written.error();
    }
  }
  if (index_status) {
    ++state_.counters.group_commits;
    state_.counters.dropped_blocks += dropped_.size();
    state_.dropped.add(dropped_);
  }
  if (any_written) {
    state_.health.succeeded();
  } else if (failure) {
    state_.health.failed(*failure);
  }
  lost_.clear();
  dropped_.clear();
  // Last, so that whoever is told finds everything else told already.
  complete(std::exchange(closing_, {}));
  if (!index_status) {
    // What was written ahead lies in what was given up.
    for (const AppendPtr& append : open_.appends) {
      if (append->written) append->written = index_status;
    }
    complete(std::exchange(open_, {}));
  }
}

void GroupCommit::complete(Group group) {
  for (const AppendPtr& append : group.appends) {
    if (append->written) {
      queue_.finish(append, entry_of(*append));
    } else {
      queue_.finish(append, append->written.error());
    }
  }
}

void GroupCommit::count(const Append& append) {
  if (append.moved_from) {
    state_.counters.reinserted_bytes += append.record_bytes();
  } else if (append.kind == RecordKind::block) {
    ++state_.counters.appended_blocks;
    state_.counters.appended_bytes += append.record_bytes();
  }
}

}  // namespace kvstrata::storage
