#include "bench/host/lookup_bench.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <memory>

#include "bench/common/measure.h"
#include "bench/common/process.h"
#include "bench/common/progress.h"
#include "bench/host/workload.h"

namespace kvstrata::bench {

namespace {

constexpr std::size_t prefix_blocks = 512;
constexpr std::size_t sequences = 196;  // 100,352 blocks
constexpr std::uint32_t block_tokens = 256;
constexpr std::uint32_t first_number = 1'000'000;
constexpr std::size_t lookups = 600;

std::vector<std::uint32_t> sequence_tokens(std::size_t number) {
  return tokens_of(first_number + static_cast<std::uint32_t>(number), prefix_blocks, block_tokens);
}

void must_find_all(const Result<Lease>& lease) {
  if (!lease) fail("lookup: " + lease.error().message());
  if (lease->blocks() != prefix_blocks) {
    fail("lookup found " + std::to_string(lease->blocks()) + " of 512 blocks");
  }
}

/// The keys of the working set in a RocksDB of this process, values as long as an index entry.
class Floor {
 public:
  Floor(const std::string& directory, const std::vector<std::vector<Hash256>>& hashes) {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(256 << 20);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db = nullptr;
    if (!rocksdb::DB::Open(options, directory, &db).ok()) fail("can't open the floor's RocksDB");
    db_.reset(db);
    const std::string value(150, 'v');
    for (const auto& sequence : hashes) {
      for (const Hash256& hash : sequence) db_->Put({}, slice(hash), value);
    }
    db_->Flush({});
    db_->CompactRange({}, nullptr, nullptr);
  }

  void multi_get(const std::vector<Hash256>& hashes) const {
    std::vector<rocksdb::Slice> keys;
    for (const Hash256& hash : hashes) keys.push_back(slice(hash));
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet({}, db_->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                  statuses.data());
    for (const auto& status : statuses) {
      if (!status.ok()) fail("the floor's MultiGet missed");
    }
  }

 private:
  static rocksdb::Slice slice(const Hash256& hash) {
    return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
  }
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

void fill_index(Client& client, const Namespace& ns) {
  const ByteVector payload(ns.block_bytes());
  const std::vector<ByteView> blocks(prefix_blocks, ByteView(payload));
  Progress progress("blocks indexed", sequences * prefix_blocks);
  for (std::size_t number = 0; number < sequences; ++number) {
    const auto tokens = sequence_tokens(number);
    const auto stored = client.put(ns, {.tokens = tokens}, blocks, {});
    if (!stored) fail("put: " + stored.error().message());
    progress.at((number + 1) * prefix_blocks);
  }
  const auto flushed = client.flush();
  if (!flushed) fail("flush: " + flushed.error().message());
}

void bench_lookup(Client& client, const Namespace& ns, const std::string& scratch,
                  Figures& figures) {
  std::vector<std::vector<Hash256>> hashes;
  std::vector<std::vector<std::uint32_t>> tokens;
  for (std::size_t number = 0; number < sequences; ++number) {
    tokens.push_back(sequence_tokens(number));
    hashes.push_back(prefix_hashes(ns.hash(), tokens.back(), block_tokens));
  }
  // Right after the daemon's start nothing of the index is in its memory.
  std::vector<double> first_microseconds;
  for (std::size_t number = 0; number < sequences; number += 4) {
    first_microseconds.push_back(
        1e6 * seconds_of(
                  [&] { must_find_all(client.lookup(ns, Selection::of_hashes(hashes[number]))); }));
  }
  figures.add("lookup512_first_p50_us", median(first_microseconds), "us, right after a start");
  std::mt19937 random(3);
  std::vector<double> microseconds;
  for (std::size_t i = 0; i < lookups; ++i) {
    const auto& wanted = hashes[random() % sequences];
    microseconds.push_back(
        1e6 * seconds_of([&] { must_find_all(client.lookup(ns, Selection::of_hashes(wanted))); }));
  }
  figures.add("lookup512_hashes_p50_us", median(microseconds), "us");
  figures.add("lookup512_hashes_p99_us", quantile(microseconds, 0.99), "us");
  const Floor floor(scratch, hashes);
  std::mt19937 a(5), b(6), c(7);
  const auto hash_and_get = [&](std::mt19937& numbers) {
    const auto& wanted = tokens[numbers() % sequences];
    floor.multi_get(prefix_hashes(ns.hash(), wanted, block_tokens));
  };
  std::vector<Candidate> candidates = {
      {"kvstrata",
       [&] { must_find_all(client.lookup(ns, Selection::of_tokens(tokens[a() % sequences]))); },
       {}},
      {"floor", [&] { hash_and_get(b); }, {}},
      {"floor again", [&] { hash_and_get(c); }, {}}};
  interleave(candidates, lookups);
  figures.add("lookup512_tokens_us", 1e6 * median(candidates[0].seconds), "us");
  figures.add("lookup512_floor_us", 1e6 * median(candidates[1].seconds), "us");
  figures.add("lookup512_floor_vs_floor",
              median(candidates[2].seconds) / median(candidates[1].seconds), "null control");
  figures.add("lookup512_tokens_vs_floor",
              median(candidates[0].seconds) / median(candidates[1].seconds));
}

}  // namespace kvstrata::bench
