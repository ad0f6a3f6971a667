#include "storage/recovery/recover.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>

#include "storage/aside_files.h"
#include "storage/record_read.h"
#include "storage/recovery/found_blocks.h"
#include "storage/recovery/old_segment.h"

namespace kvstrata::storage {

namespace {

using FoundPut = std::vector<FoundRecord>;

// Appends under way, so that memory stays bounded; fewer than a store takes at a time.
constexpr std::uint64_t unflushed_blocks_max = 256;
constexpr std::uint64_t unflushed_bytes_max = 64_MiB;
// Of the store that the blocks go to: segments, index, rings.
constexpr std::uint64_t other_files_max = 512;

using Segments = std::map<SegmentId, OldSegment>;

// A segment that could not be opened for want of a descriptor would count as a foreign file, and
// its blocks would be lost.
Status allow_open_files(std::uint64_t segments) {
  const std::uint64_t needed = segments + other_files_max;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return error_from_errno(errno, "RLIMIT_NOFILE");
  if (limit.rlim_cur >= needed) return {};
  if (limit.rlim_max < needed) {
    return Error(ErrorKind::invalid_argument,
                 std::to_string(segments) + " segments have to be open at once, but this process " +
                     "may open " + std::to_string(limit.rlim_max) + " files; allow " +
                     std::to_string(needed) + " (ulimit -n) and try again, nothing was changed");
  }
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
  return error_from_errno(errno, "raising RLIMIT_NOFILE");
}

// Every segment of the directory, before the store is opened: where it has less room than what lies
// aside takes, it removes the oldest at once. What is open can still be read.
Result<Segments> open_segments(const StoreOptions& options) {
  Segments segments;
  std::error_code error;
  const std::filesystem::path directory = options.directory + "/segments";
  const auto files = std::distance(std::filesystem::directory_iterator(directory, error),
                                   std::filesystem::directory_iterator());
  KV_TRY(allow_open_files(static_cast<std::uint64_t>(files)));
  for (const auto& file : std::filesystem::directory_iterator(directory, error)) {
    if (auto segment = OldSegment::open(file.path())) {
      const SegmentId id = segment->id();
      segments.emplace(id, *std::move(segment));
    }
  }
  return segments;
}

class Recovery {
 public:
  Recovery(Store& store, const StoreOptions& options, const RecoveryProgress& progress,
           Segments segments)
      : store_(store), options_(options), progress_(progress), segments_(std::move(segments)) {}

  void choose_segments();
  void scan();
  Status restore_namespaces();
  Status restore_blocks();
  Status restore_each_block();
  const RecoveryReport& report() const { return report_; }

 private:
  Status restore_block(const FoundPut& put);
  Status append(AppendRequest request);
  Result<bool> restore_table(NamespaceId old_ns, NamespaceId ns, TableId table);
  Result<ReadRecord> read(RecordKind kind, const FoundPut& put, RecordHeader& first) const;
  void count_end(const Result<IndexEntry>& ended, std::uint64_t frame_bytes);

  Store& store_;
  const StoreOptions& options_;
  const RecoveryProgress& progress_;
  Segments segments_;
  FoundBlocks found_;
  std::map<NamespaceId, NamespaceId> new_ids_;  ///< of namespaces, by their old ids
  std::map<FoundBlocks::TableKey, TableId> new_tables_;
  std::uint64_t unflushed_blocks_ = 0, unflushed_bytes_ = 0;
  std::mutex mutex_;  ///< of the report while appends end
  RecoveryReport report_;
};

// Those that the opened store has put aside, or had before; the others are its own.
void Recovery::choose_segments() {
  const auto is_ours = [this](const OldSegment& segment) {
    return hex_of(segment.store()) == store_.id_hex();
  };
  const std::string directory = options_.directory + "/segments/";
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(directory, error)) {
    std::string name = file.path().filename();
    if (!name.ends_with(old_segment_suffix)) continue;
    name.resize(name.size() - old_segment_suffix.size());
    const auto id = parse_segment_file_name(name);
    const auto segment = id ? segments_.find(*id) : segments_.end();
    if (segment == segments_.end() || !is_ours(segment->second)) ++report_.foreign_segments;
  }
  std::erase_if(segments_, [&](const auto& one) {
    const auto& [id, segment] = one;
    return !is_ours(segment) || std::filesystem::exists(directory + segment_file_name(id));
  });
  report_.segments = segments_.size();
}

void Recovery::scan() {
  std::uint64_t total = 0;
  for (const auto& [id, segment] : segments_) total += segment.bytes();
  std::uint64_t done = 0;
  for (const auto& [id, segment] : segments_) {
    const ScanCounts counts = segment.scan([&](const RecordHead& head) {
      found_.add(head);
      progress_("looking for blocks", done + head.header.offset, total);
    });
    report_.records += counts.records;
    report_.damaged_pages += counts.damaged;
    report_.unreadable_pages += counts.unreadable;
    done += segment.bytes();
  }
  progress_("looking for blocks", total, total);
}

// Epochs first: of a model's namespaces only those of the newest can be reached.
Status Recovery::restore_namespaces() {
  for (const auto& [id, ns] : found_.namespaces()) {
    const NamespaceSpec& spec = ns.spec;
    while (store_.weight_epoch(spec.tenant, spec.model.fingerprint) < spec.weight_epoch) {
      KV_TRY(store_.bump_weight_epoch(spec.tenant, spec.model.fingerprint));
    }
  }
  for (const auto& [id, ns] : found_.namespaces()) {
    const NamespaceSpec& spec = ns.spec;
    if (spec.weight_epoch < store_.weight_epoch(spec.tenant, spec.model.fingerprint)) continue;
    KV_ASSIGN(new_ids_[id], store_.register_namespace(spec));
  }
  return {};
}

// Appends under way tell this object how they ended: none outlives it.
Status Recovery::restore_blocks() {
  const Status restored = restore_each_block();
  const Status flushed = store_.flush();
  return restored ? flushed : restored;
}

Status Recovery::restore_each_block() {
  const std::vector<FoundPut> puts = found_.newest_puts(report_.incomplete);
  for (std::size_t i = 0; i < puts.size(); ++i) {
    KV_TRY(restore_block(puts[i]));
    progress_("bringing back blocks", i + 1, puts.size());
  }
  return {};
}

Status Recovery::restore_block(const FoundPut& put) {
  const BlockKey& old_key = put.front().key;
  const auto ns = new_ids_.find(old_key.ns);
  if (ns == new_ids_.end()) {
    ++(found_.namespaces().contains(old_key.ns) ? report_.outdated : report_.nameless);
    return {};
  }
  RecordHeader first{};
  Result<ReadRecord> record = read(RecordKind::block, put, first);
  if (!record && record.error().kind() == ErrorKind::out_of_memory) return record.error();
  if (!record) {
    ++report_.damaged;
    return {};
  }
  if (first.expires_unix_ms != 0 && first.expires_unix_ms <= options_.clock->unix_ms()) {
    ++report_.expired;
    return {};
  }
  AppendRequest request;
  request.key = {ns->second, old_key.digest, old_key.group};
  std::optional<IndexEntry> known;
  KV_TRY(store_.find(std::span(&request.key, 1), std::span(&known, 1)));
  if (known) {
    ++report_.present;
    return {};
  }
  if (first.table != 0) {
    KV_ASSIGN(const bool has_table, restore_table(old_key.ns, ns->second, {first.table}));
    if (!has_table) {
      ++report_.incomplete;
      return {};
    }
    request.table = new_tables_.at({old_key.ns, {first.table}});
  }
  if ((first.flags & record_has_parent) != 0) request.parent = first.parent;
  request.identity.assign(record->identity.begin(), record->identity.end());
  KV_ASSIGN(request.frame, FrameBuffer::take(record->frame.size()));
  if (!record->frame.empty()) {
    std::memcpy(request.frame.data(), record->frame.data(), record->frame.size());
  }
  request.frame_bytes = record->frame.size();
  request.raw_bytes = first.raw_bytes;
  request.payload_xxh3 = first.payload_xxh3;
  request.codec = first.codec;
  request.expires_unix_ms = first.expires_unix_ms;
  request.pinned = (first.flags & record_pinned) != 0;
  return append(std::move(request));
}

Status Recovery::append(AppendRequest request) {
  const std::uint64_t frame_bytes = request.frame_bytes;
  ++unflushed_blocks_;
  unflushed_bytes_ += frame_bytes;
  if (unflushed_blocks_ > unflushed_blocks_max || unflushed_bytes_ > unflushed_bytes_max) {
    KV_TRY(store_.flush());
    unflushed_blocks_ = unflushed_bytes_ = 0;
  }
  const Status queued = store_.append(
      std::move(request),
      [this, frame_bytes](const Result<IndexEntry>& ended) { count_end(ended, frame_bytes); });
  if (!queued) count_end(queued.error(), frame_bytes);
  return {};
}

void Recovery::count_end(const Result<IndexEntry>& ended, std::uint64_t frame_bytes) {
  const std::lock_guard lock(mutex_);
  if (ended) {
    ++report_.recovered_blocks;
    report_.recovered_bytes += frame_bytes;
  } else {
    ++report_.refused;
  }
}

// False: the table is not there, or the namespace has no place for it.
Result<bool> Recovery::restore_table(NamespaceId old_ns, NamespaceId ns, TableId table) {
  const FoundBlocks::TableKey key{old_ns, table};
  if (new_tables_.contains(key)) return true;
  const auto found = found_.tables().find(key);
  if (found == found_.tables().end()) return false;
  RecordHeader first{};
  const Result<ReadRecord> record = read(RecordKind::table, {found->second}, first);
  if (!record && record.error().kind() == ErrorKind::out_of_memory) return record.error();
  if (!record) return false;
  const auto added = store_.add_table(ns, record->frame);
  if (!added && added.error().kind() == ErrorKind::too_large) return false;
  if (!added) return added.error();
  new_tables_.emplace(key, *added);
  return true;
}

Result<ReadRecord> Recovery::read(RecordKind kind, const FoundPut& put, RecordHeader& first) const {
  const FoundRecord& record = put.front();
  ByteVector page(record_alignment);
  if (!segments_.at(record.where.segment).read(record.where.offset, page)) {
    return Error(ErrorKind::io, "a record can't be read any more");
  }
  std::memcpy(&first, page.data(), sizeof first);
  IndexEntry entry;
  entry.where = record.where;
  for (std::size_t i = 1; i < put.size(); ++i) entry.more.push_back(put[i].where);
  entry.frame_bytes = first.frame_total_bytes;
  entry.payload_xxh3 = first.payload_xxh3;
  RecordRead plan(kind, record.key, entry);
  KV_TRY(plan.memory());
  for (const RecordRead::Transfer& transfer : plan.transfers()) {
    if (!segments_.at(transfer.segment).read(transfer.offset, {transfer.buffer, transfer.bytes})) {
      return Error(ErrorKind::io, "a record can't be read any more");
    }
  }
  return plan.finish(true);
}

void remove_what_lay_aside(const std::string& directory) {
  AsideFiles aside = AsideFiles::scan(directory);
  while (!aside.empty()) aside.remove_oldest();
}

}  // namespace

Result<RecoveryReport> recover_store(StoreOptions options, const RecoveryProgress& progress) {
  RecoveryReport report;
  {
    KV_ASSIGN(Segments segments, open_segments(options));
    KV_ASSIGN(const std::unique_ptr<Store> store, Store::open(options));
    Recovery recovery(*store, options, progress, std::move(segments));
    recovery.choose_segments();
    recovery.scan();
    KV_TRY(recovery.restore_namespaces());
    KV_TRY(recovery.restore_blocks());
    report = recovery.report();
  }
  if (report.unreadable_pages == 0 && report.refused == 0) remove_what_lay_aside(options.directory);
  return report;
}

}  // namespace kvstrata::storage
