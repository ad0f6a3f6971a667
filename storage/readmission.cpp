#include "storage/readmission.h"

#include <algorithm>

namespace kvstrata::storage {

namespace {

constexpr std::size_t segments_max = 4;
constexpr std::size_t samples_a_segment = 2;
constexpr std::uint64_t sample_bytes_max = 8_MiB;
constexpr Milliseconds read_step{1000};

// One record may have rotten by itself; that is found, and removed, by whoever reads it.
constexpr int wrong_max = 1;

}  // namespace

Status Readmission::check() {
  KV_TRY(state_.directory.check_in_place());
  return check_content();
}

// Wrong bytes never reach a client, for every read is checked; what must not happen is that new
// blocks are trusted to a disk that does not keep them. The records written last come first, for a
// disk that was rolled back lost those.
Status Readmission::check_content() {
  int wrong = 0;
  std::optional<Error> unreadable;
  for (const SegmentTable::Row& row : newest_segments()) {
    KV_ASSIGN(const std::vector<Sample> samples, samples_of(row));
    for (const Sample& sample : samples) {
      const Result<Finding> finding = look_at(sample);
      if (!finding) {
        // One unreadable sector may lie there by itself, like one rotten record.
        if (!unreadable) unreadable = finding.error();
        continue;
      }
      wrong += *finding == Finding::wrong ? 1 : 0;
      if (wrong > wrong_max) return lost_content();
      if (*finding == Finding::intact) return {};
    }
  }
  if (unreadable) return *unreadable;
  return {};
}

Error Readmission::lost_content() const {
  return {ErrorKind::unavailable,
          "the disk does not give back what was written and synced to " +
              state_.directory.segments_path() +
              ": its newest records are not intact; look at the drive, then restart kvstratad"};
}

std::vector<SegmentTable::Row> Readmission::newest_segments() const {
  std::vector<SegmentTable::Row> rows = state_.segments.rows();
  std::erase_if(rows, [](const SegmentTable::Row& row) {
    return row.second.live_blocks == 0 || row.second.state == SegmentState::lost;
  });
  std::ranges::sort(rows, std::greater(),
                    [](const SegmentTable::Row& row) { return row.second.order; });
  if (rows.size() > segments_max) rows.resize(segments_max);
  return rows;
}

Result<std::vector<Readmission::Sample>> Readmission::samples_of(
    const SegmentTable::Row& row) const {
  const auto& [segment, value] = row;
  KV_ASSIGN(const std::vector<PlacedRecord> placed, state_.index.placements(segment));
  KV_ASSIGN(auto blocks, state_.index.live_blocks(placed, segment, value.generation));
  std::erase_if(blocks,
                [](const Sample& block) { return block.second.record_bytes() > sample_bytes_max; });
  std::ranges::reverse(blocks);  // they come in order of offset
  if (blocks.size() > samples_a_segment) blocks.resize(samples_a_segment);
  return blocks;
}

Result<Readmission::Finding> Readmission::look_at(const Sample& sample) {
  const auto& [key, entry] = sample;
  RecordRead read(RecordKind::block, key, entry);
  if (!read.memory()) return Finding::unknown;
  KV_ASSIGN(const bool there, fetch(read));
  if (!there) return Finding::unknown;
  if (read.finish(true)) return Finding::intact;
  // Others may have removed the block while it was read.
  KV_ASSIGN(const std::optional<IndexEntry> now, state_.index.find(key));
  return now && now->where == entry.where ? Finding::wrong : Finding::unknown;
}

// False: a file of it is gone or cut. That takes the segment's blocks, and nothing else.
Result<bool> Readmission::fetch(const RecordRead& read) {
  for (const RecordRead::Transfer& transfer : read.transfers()) {
    Result<FileHandle> file = files_.open(transfer.segment);
    if (file) {
      std::optional<Status> ended;
      files_.begin_use(transfer.segment);
      io_.add({IoOperation::read, *file, transfer.offset, transfer.buffer, transfer.bytes, 0},
              [&](const Status& status) { ended = status; });
      while (!ended) io_.poll(1, read_step);
      files_.end_use(transfer.segment);
      if (!*ended) file = ended->error();
    }
    if (file) continue;
    if (!files_.is_lost(transfer.segment, transfer.offset + transfer.bytes)) return file.error();
    state_.errands.add_lost(transfer.segment);
    return false;
  }
  return true;
}

}  // namespace kvstrata::storage
