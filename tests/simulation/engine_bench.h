// An EngineBench is an engine (arena, encoders, store) whose kernel refuses what FaultyCalls says,
// and a client of it that knows what every block must hold.
//
// Threads: one, which is the engine's control thread while it waits. Lifetime: one case.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/engine/engine.h"
#include "storage/device/memory_disk.h"
#include "tests/simulation/call_faults.h"
#include "tests/simulation/simulated_disk.h"

namespace kvstrata::simulation {

/// Runs what is posted while somebody waits for an answer.
class ControlLoop final : public daemon::Executor {
 public:
  void post(std::function<void()> work) override;
  void run_until(const std::function<bool()>& is_done);

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> queue_;
};

/// real: a directory and io_uring. in_memory: a run takes no time of a disk, and none of rings.
enum class Disks : std::uint8_t { real, in_memory };

/// Small: 16 MiB of host memory, twelve segments of 1 MiB.
class EngineBench {
 public:
  EngineBench(const std::string& directory, Disks disks, FaultyCalls& calls);
  ~EngineBench() { stop(); }
  EngineBench(const EngineBench&) = delete;
  EngineBench& operator=(const EngineBench&) = delete;

  /// Opens the engine and registers the namespace; false, with error(), if either fails.
  bool start();
  void stop();
  bool running() const { return engine_ != nullptr; }
  const Error& error() const { return *error_; }

  /// Blocks are sequences of their own, of 512 KiB or 128 KiB.
  struct Name {
    int number = 0;
    bool large = true;
  };
  /// How a request ended: nothing, or why not.
  using Ended = std::optional<ErrorKind>;
  Ended put(const Name& name);
  /// By way of staging memory, as a local client does.
  Ended put_staged(const Name& name);
  enum class Answer { absent, intact, wrong, refused, unreadable };
  /// `unreadable`: the record is damaged; `refused`: see refused_with().
  Answer get(const Name& name);
  ErrorKind refused_with() const { return refused_with_; }
  /// Makes all that was put durable, and lets time pass.
  Status flush();
  void advance(Milliseconds by) { clock_.advance(by); }

  /// Over all lives.
  std::uint64_t appended_blocks() const { return appended_; }
  std::uint64_t dropped_blocks() const { return dropped_; }

 private:
  template <typename T, typename Verb>
  Result<T> await(Verb verb) {
    std::optional<Result<T>> answer;
    verb([&answer](Result<T> result) { answer.emplace(std::move(result)); });
    loop_.run_until([&] { return answer.has_value(); });
    return std::move(*answer);
  }
  Result<std::unique_ptr<storage::Device>> open_segments();
  Ended commit(const Name& name, const protocol::StagingRef& slot);
  static Ended ended_of(const Result<daemon::Committed>& committed);

  FaultyCalls& calls_;
  FaultyMemorySystem memory_;
  FaultyUringSystem rings_;
  FaultyFrameMemory frames_;
  SimulatedDisk index_{[] {}};
  std::shared_ptr<rocksdb::Env> environment_;  // of the index
  std::shared_ptr<storage::MemoryDisk> segments_;
  FakeClock clock_;
  ControlLoop loop_;
  daemon::EngineOptions options_;
  std::unique_ptr<daemon::Engine> engine_;
  daemon::Caller caller_;
  NamespaceId ns_;
  std::optional<Error> error_;
  ErrorKind refused_with_{};
  std::uint64_t appended_ = 0, dropped_ = 0;
};

}  // namespace kvstrata::simulation
