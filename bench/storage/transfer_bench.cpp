#include "bench/storage/transfer_bench.h"

#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <map>
#include <random>

#include "bench/common/fio.h"
#include "bench/common/process.h"
#include "bench/storage/blocks.h"
#include "bench/storage/room.h"
#include "storage/segment/segment_file.h"

namespace kvstrata::bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t segment_bytes = 256_MiB;
constexpr std::uint64_t chain_blocks = 16;
// Whoever restores a prefix asks for some blocks at a time, and stores some.
constexpr unsigned reads_at_once = 4, writes_at_once = 8;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// What `move` moved, at which rate. It returns the bytes.
DiskRate rate_of(const std::function<std::uint64_t(Clock::time_point end)>& move, double seconds) {
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
  const auto bytes = static_cast<double>(move(end));
  const double took = Seconds(Clock::now() - start).count();
  return {bytes / took, (cpu_seconds() - cpu_before) / (bytes / static_cast<double>(1_GiB))};
}

/// A full store: its budget was written through once, so that from here on it reuses segments.
class FullStore {
 public:
  explicit FullStore(const TransferPlan& plan) : blocks_(io_bytes, chain_blocks) {
    options_.directory = plan.scratch + "/store";
    // The index has a sixteenth.
    options_.disk_budget_bytes = plan.segments * segment_bytes / 15 * 16 + 16_MiB;
    options_.segment_bytes = segment_bytes;
    store_ = must(storage::Store::open(options_), "open");
    ns_ = must(store_->register_namespace(blocks_.spec()), "register");
    const std::uint64_t records = plan.segments * segment_bytes / (io_bytes + 8_KiB);
    constexpr std::uint64_t step = 128;
    Progress progress("filling the store", records / step);
    for (; store_->stats().reclaimed_segments == 0; next_ += step) {
      put_all(*store_, ns_, blocks_, next_, next_ + step);
      progress.at(std::min(next_ / step, records / step));
    }
  }

  /// What is stored of segments that are full, by block number, and these segments' files.
  void list_full_segments() {
    std::map<storage::RecordLocation, std::uint64_t, decltype(&before)> placed(before);
    for (std::uint64_t number = 0; number < next_; ++number) {
      if (const auto entry = find(*store_, Blocks::key(ns_, number))) placed[entry->where] = number;
    }
    const SegmentId open = find(*store_, Blocks::key(ns_, next_ - 1))->where.segment;
    for (const auto& [where, number] : placed) {
      if (where.segment == open) continue;
      readable_.push_back(Blocks::key(ns_, number));
      const std::string file =
          options_.directory + "/segments/" + storage::segment_file_name(where.segment);
      if (files_.empty() || files_.back() != file) files_.push_back(file);
    }
  }
  const std::vector<std::string>& files() const { return files_; }

  DiskRate read_randomly(double seconds) {
    return rate_of([this](Clock::time_point end) { return read_until(end); }, seconds);
  }
  DiskRate write(double seconds) {
    return rate_of([this](Clock::time_point end) { return write_until(end); }, seconds);
  }
  storage::StoreStats stats() const { return store_->stats(); }

 private:
  static bool before(const storage::RecordLocation& a, const storage::RecordLocation& b) {
    return std::pair(a.segment, a.offset) < std::pair(b.segment, b.offset);
  }
  std::uint64_t read_until(Clock::time_point end);
  std::uint64_t write_until(Clock::time_point end);

  const Blocks blocks_;
  storage::StoreOptions options_;
  std::unique_ptr<storage::Store> store_;
  NamespaceId ns_{};
  std::uint64_t next_ = 0;
  std::vector<BlockKey> readable_;
  std::vector<std::string> files_;
  std::mt19937_64 random_{7};
};

std::uint64_t FullStore::read_until(Clock::time_point end) {
  Room room(io_depth);
  std::uint64_t bytes = 0;
  std::array<BlockKey, reads_at_once> keys;
  std::array<std::optional<storage::IndexEntry>, reads_at_once> entries;
  while (Clock::now() < end) {
    for (BlockKey& key : keys) key = readable_[random_() % readable_.size()];
    must(store_->find(keys, entries), "find");
    room.take(reads_at_once);
    for (unsigned i = 0; i < reads_at_once; ++i) {
      store_->read(keys[i], *entries[i], [&](const Result<storage::ReadRecord>& record) {
        must(record ? Status() : Status(record.error()), "read");
        bytes += blocks_.payload_bytes();
        room.give_back();
      });
    }
  }
  room.take(io_depth);
  return bytes;
}

std::uint64_t FullStore::write_until(Clock::time_point end) {
  const std::uint64_t first = next_;
  Room room(appends_max);
  while (Clock::now() < end) {
    room.take(writes_at_once);
    for (std::uint64_t last = next_ + writes_at_once; next_ < last; ++next_) {
      must(store_->append(blocks_.put_unfilled(ns_, next_),
                          [&](const Result<storage::IndexEntry>& entry) {
                            must(entry ? Status() : Status(entry.error()), "put");
                            room.give_back();
                          }),
           "append");
    }
  }
  must(store_->flush(), "flush");
  return (next_ - first) * blocks_.payload_bytes();
}

/// Prints `mover` against fio, and fio against itself; false if the latter isn't 1.
bool compare(const std::string& what, const std::vector<Mover>& movers, const TransferPlan& plan,
             Figures& figures) {
  const Mover& store = movers[0];
  const Mover& fio = movers[1];
  for (const Mover& mover : movers) {
    figures.add(mover.name + "_gib_s",
                mover.median_of(&DiskRate::bytes_per_second) / static_cast<double>(1_GiB));
    figures.add(mover.name + "_cpu_s_per_gib", mover.median_of(&DiskRate::cpu_seconds_per_gib));
  }
  const auto rates = ratios(store, fio, &DiskRate::bytes_per_second);
  figures.add("nvme_" + what + "_vs_fio", median(rates));
  figures.add("nvme_" + what + "_vs_fio_quartile", quantile(rates, 0.25));
  figures.add(what + "_cpu_vs_fio", median(ratios(store, fio, &DiskRate::cpu_seconds_per_gib)));
  const double null = median(ratios(movers[2], fio, &DiskRate::bytes_per_second));
  figures.add("fio_vs_fio_" + what, null);
  const bool calm = null >= 1 - plan.null_tolerance && null <= 1 + plan.null_tolerance;
  if (!calm) {
    std::printf("  fio differs from itself by more than %.0f %%: rerun on a calmer machine\n",
                plan.null_tolerance * 100);
  }
  return calm;
}

std::vector<Mover> against_fio(const std::string& what, std::function<DiskRate()> store,
                               const FioJob& job, const std::string& scratch) {
  const auto fio = [job, scratch] { return run_fio(job, scratch); };
  return {{"store_" + what, std::move(store), {}},
          {"fio_" + what, fio, {}},
          {"fio_again_" + what, fio, {}}};
}

bool bench_reads(FullStore& store, const TransferPlan& plan, Figures& figures) {
  store.list_full_segments();
  const FioJob job{"randread", store.files(), segment_bytes - io_bytes, plan.seconds};
  auto movers =
      against_fio("read", [&] { return store.read_randomly(plan.seconds); }, job, plan.scratch);
  take_turns("reading", movers, plan.rounds);
  return compare("read", movers, plan, figures);
}

bool bench_writes(FullStore& store, const TransferPlan& plan, Figures& figures) {
  const std::string file = plan.scratch + "/fio-writes";
  FioJob job{"write", {file}, 2_GiB, 10};
  run_fio(job, plan.scratch);  // creates it, and writes all of it
  // fio syncs as often as the store does under this load.
  const storage::StoreStats before = store.stats();
  store.write(plan.seconds);
  const storage::StoreStats after = store.stats();
  const std::uint64_t group_bytes =
      (after.appended_bytes - before.appended_bytes) / (after.group_commits - before.group_commits);
  figures.add("write_group_mib", static_cast<double>(group_bytes) / static_cast<double>(1_MiB));
  job.seconds = plan.seconds;
  job.sync_bytes = round_up(group_bytes, io_bytes);
  auto movers = against_fio("write", [&] { return store.write(plan.seconds); }, job, plan.scratch);
  take_turns("writing", movers, plan.rounds);
  return compare("write", movers, plan, figures);
}

}  // namespace

bool bench_transfers(const TransferPlan& plan, Figures& figures) {
  FullStore store(plan);
  figures.add("data_set_gib",
              static_cast<double>(store.stats().segment_bytes) / static_cast<double>(1_GiB));
  const bool reads = !plan.reads || bench_reads(store, plan, figures);
  const bool writes = !plan.writes || bench_writes(store, plan, figures);
  return reads && writes;
}

}  // namespace kvstrata::bench
