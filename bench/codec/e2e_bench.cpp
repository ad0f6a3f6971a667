#include "bench/codec/e2e_bench.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "bench/common/fio.h"
#include "bench/common/must.h"
#include "bench/common/process.h"
#include "bench/common/scratch_directory.h"
#include "kvstrata/client.h"

namespace kvstrata::bench {

namespace {

constexpr std::size_t sequence_blocks = 16;
constexpr std::size_t clients = 2;

NamespaceSpec model_of(const codec::BlockShape& shape) {
  NamespaceSpec spec;
  spec.model.fingerprint = "bench-e2e";
  spec.model.dtype = shape.dtype;
  spec.model.block_tokens = shape.tokens;
  spec.model.groups = {{GroupKind::full_attention, shape.layers, shape.kv_heads, shape.head_dim_k,
                        shape.head_dim_v, 0}};
  return spec;
}

/// A daemon whose memory holds a small part of what is stored.
class Place {
 public:
  Place(const KvBlocks& blocks, const EndToEndPlan& plan)
      : blocks_(blocks),
        sequences_(plan.sequences),
        scratch_(plan.directory),
        socket_(scratch_.path() + "/kvstrata.sock"),
        daemon_({plan.daemon, "--data", scratch_.path() + "/data", "--socket", socket_,
                 "--host-memory", "512MiB", "--disk", "4GiB", "--log-level", "warning"},
                socket_) {
    fill();
  }

  const std::string& scratch() const { return scratch_.path(); }
  double bytes_a_sequence() const {
    return static_cast<double>(sequence_blocks * blocks_.shape.raw_bytes());
  }

  Client connect() const {
    ClientOptions options;
    options.address = "unix:" + socket_;
    return must(Client::connect(options), "connect");
  }

  std::vector<std::uint32_t> tokens_of(std::size_t sequence) const {
    std::mt19937 random(static_cast<unsigned>(sequence));
    std::vector<std::uint32_t> tokens(sequence_blocks * blocks_.shape.tokens);
    for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(random() % 49'152);
    return tokens;
  }

  /// Reads sequences one after the other, from `first` on, until `stop`; returns how many.
  std::size_t read(std::size_t first, const std::atomic<bool>& stop) const {
    Client client = connect();
    const Namespace ns = must(client.register_model(model_of(blocks_.shape)), "register");
    std::size_t count = 0;
    for (; !stop; ++count) {
      const auto tokens = tokens_of((first + count) % sequences_);
      const Fetched fetched = must(client.get(ns, Selection::of_tokens(tokens)), "get");
      if (fetched.blocks.size() != sequence_blocks) fail("e2e: a stored sequence is not found");
      for (const BlockView& view : fetched.blocks) {
        if (!view) fail("e2e: " + view.status().error().message());
      }
    }
    return count;
  }

  /// Files of segments that were written to their end, all of one size.
  FioJob fio_job(double seconds) const {
    std::vector<std::pair<std::uint64_t, std::string>> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(scratch_.path())) {
      if (file.is_regular_file() && file.file_size() >= 64_MiB) {
        files.emplace_back(file.file_size(), file.path());
      }
    }
    if (files.size() < 2) fail("e2e: no full segments to read");
    std::ranges::sort(files);
    FioJob job{"randread", {}, files.front().first - 2 * io_bytes, seconds};
    for (const auto& file : files) job.files.push_back(file.second);
    return job;
  }

 private:
  void fill() {
    Client client = connect();
    const Namespace ns = must(client.register_model(model_of(blocks_.shape)), "register");
    Progress progress("e2e: sequences stored", sequences_);
    for (std::size_t s = 0; s < sequences_; ++s) {
      const auto tokens = tokens_of(s);
      std::vector<ByteView> views;
      for (std::size_t b = 0; b < sequence_blocks; ++b) {
        views.emplace_back(blocks_.payloads[(s * sequence_blocks + b) % blocks_.payloads.size()]);
      }
      must(client.put(ns, {.tokens = tokens}, views, {.durable = true}), "put");
      progress.at(s + 1);
    }
  }

  const KvBlocks& blocks_;
  std::size_t sequences_;
  ScratchDirectory scratch_;
  std::string socket_;
  Process daemon_;
};

/// Two clients read for some time, each the sequences that the other has not just read.
DiskRate read_through(const Place& place, const EndToEndPlan& plan) {
  static std::size_t next = 0;
  std::atomic<bool> stop = false;
  std::array<std::size_t, clients> counts{};
  const double seconds = seconds_of([&] {
    std::vector<std::thread> threads;
    for (std::size_t c = 0; c < clients; ++c) {
      threads.emplace_back(
          [&, c] { counts[c] = place.read(next + c * plan.sequences / clients, stop); });
    }
    std::this_thread::sleep_for(Seconds(plan.seconds));
    stop = true;
    for (std::thread& thread : threads) thread.join();
  });
  next += *std::ranges::max_element(counts);
  const std::size_t count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  return {static_cast<double>(count) * place.bytes_a_sequence() / seconds, 0};
}

}  // namespace

void bench_end_to_end(const KvBlocks& blocks, const EndToEndPlan& plan, Figures& figures) {
  const Place place(blocks, plan);
  const FioJob job = place.fio_job(plan.seconds);
  std::vector<Mover> movers{{"e2e", [&] { return read_through(place, plan); }, {}},
                            {"fio", [&] { return run_fio(job, place.scratch()); }, {}}};
  take_turns("e2e: rounds", movers, plan.rounds);
  figures.add("e2e_decoded_gb_s", movers[0].median_of(&DiskRate::bytes_per_second) / 1e9, "GB/s");
  figures.add("e2e_fio_gb_s", movers[1].median_of(&DiskRate::bytes_per_second) / 1e9, "GB/s");
  figures.add("e2e_decoded_vs_fio",
              median(ratios(movers[0], movers[1], &DiskRate::bytes_per_second)));
}

}  // namespace kvstrata::bench
