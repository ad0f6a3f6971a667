#include "bench/storage/start_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/common/measure.h"
#include "bench/common/process.h"
#include "bench/common/progress.h"
#include "bench/storage/blocks.h"
#include "storage/index_change.h"
#include "storage/store_open.h"

namespace kvstrata::bench {

namespace {

using storage::IndexChange;
using storage::IndexEntry;
using storage::RecordLocation;
using storage::SegmentState;
using storage::SegmentValue;
using storage::StoreState;

constexpr std::uint64_t segment_bytes = 256_MiB;
constexpr std::uint64_t record_bytes = 1_MiB + 8_KiB;
constexpr std::uint64_t records_a_segment =
    (segment_bytes - storage::superblock_bytes) / record_bytes;
constexpr std::uint64_t segments_a_change = 8;
// Synthetic blocks are numbered from here, so that really stored ones keep small numbers.
constexpr std::uint64_t first_synthetic = std::uint64_t{1} << 32;
constexpr std::uint64_t stored_blocks = 64;
constexpr std::uint64_t chain_blocks = 16;

storage::StoreOptions options_of(const StartPlan& plan) {
  storage::StoreOptions options;
  options.directory = plan.scratch + "/store";
  const std::uint64_t segments = plan.blocks / records_a_segment + 16;
  options.disk_budget_bytes = segments * segment_bytes / 15 * 16;
  return options;
}

IndexEntry entry_of(const BlockKey& parent, const RecordLocation& where) {
  IndexEntry entry;
  entry.where = where;
  entry.parent = parent.digest;
  entry.raw_bytes = 1_MiB;
  entry.frame_bytes = 1_MiB + 2_KiB;
  entry.payload_xxh3 = where.offset;
  entry.created_unix_ms = 1;
  return entry;
}

/// Adds blocks to the index by the changes that group commits make, through the same code, but of
/// some segments in one change, and these are files without content.
class SyntheticBlocks {
 public:
  SyntheticBlocks(StoreState& state, NamespaceId ns) : state_(state), ns_(ns) {}

  void add(std::uint64_t count) {
    Progress progress("making the index", count);
    for (std::uint64_t done = 0; done < count;) {
      IndexChange change = must(IndexChange::begin(state_), "begin");
      for (std::uint64_t i = 0; i < segments_a_change && done < count; ++i) {
        const std::uint64_t here = std::min(records_a_segment, count - done);
        add_segment(change, done, here);
        done += here;
      }
      must(change.commit(), "index");
      progress.at(done);
    }
  }

 private:
  void add_segment(IndexChange& change, std::uint64_t first, std::uint64_t records) {
    const SegmentId segment{state_.next_segment++};
    make_file(segment);
    SegmentValue& row = change.segment(segment);
    row.bytes = segment_bytes;
    row.order = segment.value;
    row.state = SegmentState::sealed;
    row.tail = storage::superblock_bytes + records * record_bytes;
    change.put_number("next_segment", segment.value + std::uint64_t{1});
    for (std::uint64_t i = 0; i < records; ++i) {
      const RecordLocation where{segment, row.generation,
                                 storage::superblock_bytes + i * record_bytes, record_bytes};
      const std::uint64_t number = first_synthetic + first + i;
      change.put_block(Blocks::key(ns_, number), entry_of(Blocks::key(ns_, number - 1), where));
    }
  }

  void make_file(SegmentId segment) {
    const std::string path =
        state_.directory.segments_path() + "/" + storage::segment_file_name(segment);
    const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(segment_bytes)) != 0) fail("can't make " + path);
    close(fd);
  }

  StoreState& state_;
  const NamespaceId ns_;
};

/// Forgets what the page cache holds of every file below `directory`.
void drop_cache(const std::string& directory) {
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory)) {
    if (!file.is_regular_file()) continue;
    const int fd = open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) fail("can't open " + file.path().string());
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

}  // namespace

void bench_start(const StartPlan& plan, Figures& figures) {
  const Blocks blocks(1_MiB, chain_blocks);
  const storage::StoreOptions options = options_of(plan);
  NamespaceId ns{};
  {
    const auto store = must(storage::Store::open(options), "open");
    ns = must(store->register_namespace(blocks.spec()), "register");
    put_all(*store, ns, blocks, 0, stored_blocks);
  }
  {
    const storage::OpenedState opened = must(storage::open_state(options), "open");
    SyntheticBlocks(*opened.state, ns).add(plan.blocks);
  }
  // The first start also replays the log of the index; later ones find it flushed.
  std::vector<double> seconds;
  for (std::uint64_t start = 0; start < 5; ++start) {
    drop_cache(options.directory);
    std::unique_ptr<storage::Store> store;
    const double opened = seconds_of([&] { store = must(storage::Store::open(options), "open"); });
    const double answered = seconds_of([&] {
      const BlockKey key = Blocks::key(ns, start);
      const auto entry = find(*store, key);
      if (!entry) fail("a stored block is not in the index");
      if (!blocks.intact(start, must(read(*store, key, *entry), "read"))) fail("a block changed");
      put_all(*store, ns, blocks, stored_blocks + start, stored_blocks + start + 1);
    });
    if (store->stats().blocks < plan.blocks) fail("the index lost blocks");
    std::printf("  start %llu: open %.3f s, first GET and put %.3f s\n",
                static_cast<unsigned long long>(start), opened, answered);
    seconds.push_back(opened + answered);
  }
  figures.add("start_2m_s", quantile(seconds, 1), "s");
  figures.add("start_2m_median_s", median(seconds), "s");
}

}  // namespace kvstrata::bench
