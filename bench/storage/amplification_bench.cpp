#include "bench/storage/amplification_bench.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <vector>

#include "bench/common/process.h"
#include "bench/common/progress.h"
#include "bench/storage/blocks.h"

namespace kvstrata::bench {

namespace {

constexpr std::uint64_t budget_bytes = 512_MiB;
constexpr std::uint64_t payload_bytes = 256_KiB;
// 2 MiB, where a segment has 32: as prompts of 16 MiB in segments of the usual 256 MiB.
constexpr std::uint64_t chain_blocks = 8;
// Blocks between two waits for durability, as a few requests together put them.
constexpr std::uint64_t step = 64;

std::uint64_t written_bytes() {
  std::ifstream io("/proc/self/io");
  std::string name;
  for (std::uint64_t value = 0; io >> name >> value;) {
    if (name == "write_bytes:") return value;
  }
  fail("/proc/self/io does not tell what was written");
}

class SmallStore {
 public:
  SmallStore(const std::string& directory, std::uint64_t fills)
      : blocks_(payload_bytes, chain_blocks), appends_(fills * budget_bytes / payload_bytes) {
    storage::StoreOptions options;
    options.directory = directory;
    options.disk_budget_bytes = budget_bytes;
    store_ = must(storage::Store::open(options), "open");
    ns_ = must(store_->register_namespace(blocks_.spec()), "register");
  }

  /// Appends block after block, each once.
  void append_in_order() {
    Progress progress("filling in order", appends_ / step);
    for (std::uint64_t next = 0; next < appends_; next += step) {
      put_all(*store_, ns_, blocks_, next, next + step);
      progress.at(next / step + 1);
    }
  }

  /// Asks for blocks by Zipf's law out of four times as many as fit: a hit touches the block, a
  /// miss appends it.
  void append_by_zipf() {
    const std::uint64_t universe = 4 * budget_bytes / payload_bytes;
    std::vector<double> weights;
    for (std::uint64_t rank = 1; rank <= universe; ++rank) {
      weights.push_back(1 / static_cast<double>(rank));
    }
    std::discrete_distribution<std::uint64_t> pick(weights.begin(), weights.end());
    std::mt19937_64 random(11);
    Progress progress("filling by Zipf's law", appends_ / step);
    for (std::uint64_t done = 0, since_flush = 0; done < appends_;) {
      const std::uint64_t number = pick(random) * chain_blocks;  // each a chain of its own
      const BlockKey key = Blocks::key(ns_, number);
      ++asked_;
      store_->touch({&key, 1});
      if (find(*store_, key)) {
        ++hits_;
        continue;
      }
      must(store_->append(blocks_.put(ns_, number), {}), "append");
      ++done;
      if (++since_flush < step) continue;
      since_flush = 0;
      must(store_->flush(), "flush");
      progress.at(done / step);
    }
    must(store_->flush(), "flush");
  }

  double hit_rate() const { return static_cast<double>(hits_) / static_cast<double>(asked_); }
  double appended_bytes() const { return static_cast<double>(appends_ * payload_bytes); }

 private:
  const Blocks blocks_;
  const std::uint64_t appends_;
  std::unique_ptr<storage::Store> store_;
  NamespaceId ns_{};
  std::uint64_t asked_ = 0, hits_ = 0;
};

}  // namespace

void bench_amplification(const AmplificationPlan& plan, Figures& figures) {
  std::uint64_t before = written_bytes();
  double appended = 0;
  {
    SmallStore store(plan.scratch + "/in-order", plan.fills);
    store.append_in_order();
    appended = store.appended_bytes();
  }
  figures.add("write_amplification", static_cast<double>(written_bytes() - before) / appended);
  before = written_bytes();
  double hit_rate = 0;
  {
    SmallStore store(plan.scratch + "/skewed", plan.fills);
    store.append_by_zipf();
    hit_rate = store.hit_rate();
  }
  figures.add("write_amplification_skewed",
              static_cast<double>(written_bytes() - before) / appended);
  figures.add("skewed_hit_rate", hit_rate);
}

}  // namespace kvstrata::bench
