// An EngineKit runs a real engine (real store, real memory) on a temporary directory and lets a
// test call its verbs as if they were synchronous.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "daemon/engine/engine.h"

namespace kvstrata::daemon::test {

/// A control thread that runs only while the test waits.
class TestLoop final : public Executor {
 public:
  void post(std::function<void()> work) override;
  void run_until(const std::function<bool()>& is_done);

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> queue_;
};

/// A directory that goes with the object.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class EngineKit {
 public:
  explicit EngineKit(std::uint64_t host_bytes = 32_MiB, std::uint64_t disk_bytes = 128_MiB);
  ~EngineKit();

  /// Ends the engine, without draining; until restart() there is none.
  void stop() { engine_.reset(); }
  /// The same, and opens a new one on the same directory.
  void restart();
  Engine& engine() { return *engine_; }
  const std::string& directory() const { return directory_.path(); }
  FakeClock& clock() { return clock_; }
  EngineOptions& options() { return options_; }

  /// Calls a verb and runs the loop until it is answered.
  template <typename T, typename Verb>
  Result<T> await(Verb verb) {
    std::optional<Result<T>> answer;
    verb([&answer](Result<T> result) { answer.emplace(std::move(result)); });
    loop_.run_until([&] { return answer.has_value(); });
    return std::move(*answer);
  }

  Caller caller(std::uint64_t connection = 1, std::string tenant = "default") const;
  Registered open_namespace(const NamespaceSpec& spec, const Caller& by);

  Result<Committed> put(const Caller& by, NamespaceId ns, std::vector<std::uint32_t> tokens,
                        const std::vector<ByteVector>& blocks, bool durable = false);
  Result<LeaseGrant> lookup(const Caller& by, NamespaceId ns, std::vector<std::uint32_t> tokens);
  Result<Loaded> get(const Caller& by, NamespaceId ns, std::vector<std::uint32_t> tokens);
  /// For each block, whether EXISTS finds it: which is no use of it.
  std::vector<std::uint8_t> exists(const Caller& by, NamespaceId ns,
                                   std::vector<std::uint32_t> tokens);
  Status flush(const Caller& by);
  Result<Removal> remove(const Caller& by, NamespaceId ns, std::vector<std::uint32_t> tokens);

  TestLoop& loop() { return loop_; }
  std::uint64_t counter(const char* name) { return engine_->stats(caller()).counters.at(name); }

 private:
  void open();

  TempDirectory directory_;
  FakeClock clock_;
  TestLoop loop_;
  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
};

/// A small model: 2 layers, 2 heads of 16, blocks of 16 tokens in bf16: 4 KiB a block.
NamespaceSpec small_model(std::string fingerprint = "m");

/// `count` blocks of one sequence: tokens and payloads that belong together.
struct Sequence16 {
  std::vector<std::uint32_t> tokens;
  std::vector<ByteVector> blocks;
};
Sequence16 make_sequence(std::uint32_t seed, std::size_t blocks);

Selection by_tokens(NamespaceId ns, std::vector<std::uint32_t> tokens);
ByteVector bytes_of_block(const LoadedBlock& block);

}  // namespace kvstrata::daemon::test
