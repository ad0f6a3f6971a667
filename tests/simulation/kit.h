// The language of the simulated stores' tests: a Place is a directory for locks, a Bench a machine
// with a store on it whose blocks are numbers.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/machine.h"
#include "tests/simulation/model.h"

namespace kvstrata::simulation {

/// A directory for the lock of stores, gone at the end.
class Place {
 public:
  Place();
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::string store() const { return path_ + "/store"; }

 private:
  std::string path_;
};

class Bench {
 public:
  explicit Bench(const Place& place, std::uint64_t seed = 1) : machine(seed, place.store()) {}
  ~Bench() { store.reset(); }  // while there is somebody it may tell what it drops
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Opens the store and registers the namespace; false, with error(), if either fails.
  bool start();
  /// Ends the store, and switches the machine on again if it was off.
  void stop();
  /// Puts block n, durably.
  Status put(int n, std::uint64_t bytes = 5'000);
  /// Puts many blocks that reach the writer all at once; how each ended.
  std::vector<Status> put_burst(int first, int count,
                                const std::function<std::uint64_t(int)>& bytes_of);
  /// Whether the store has block n, and gives back its bytes and no other ones.
  enum class Answer { absent, intact, wrong, unreadable };
  Answer get(int n, std::uint64_t bytes = 5'000);
  const Error& error() const { return *error_; }
  /// Whether the store said that it dropped block n.
  bool dropped(int n);

  Machine machine;
  Sizes sizes;
  std::unique_ptr<storage::Store> store;

 private:
  using Ended = std::future<Status>;
  Ended append(int n, std::uint64_t bytes);
  BlockKey key(int n) const { return {ns_, digest_of(n), 0}; }

  NamespaceId ns_{};
  std::optional<Error> error_;
  std::mutex mutex_;
  std::set<int> dropped_;
};

}  // namespace kvstrata::simulation
