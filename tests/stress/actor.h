// An Actor is one client of the stressor: it does everything a client may do, in random order, and
// holds each byte it reads against the history of its key.
//
// Threads: run() on a thread of its own; disturb() from any; the rest after run().
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>

#include "shelf.h"
#include "tests/base/seed.h"

namespace kvstrata::test {

struct ActorCounts {
  std::uint64_t operations = 0;
  std::uint64_t reads_judged = 0;
  std::uint64_t impossible_reads = 0;
  std::uint64_t leases_expired = 0;
  std::uint64_t gave_up = 0;  ///< calls cancelled, abandoned or cut off
};

class Actor {
 public:
  Actor(Shelf& shelf, std::string address, std::uint64_t seed);

  /// Until `end`; then everything it holds is given back.
  void run(std::chrono::steady_clock::time_point end, std::deque<Actor>& all);
  /// Cancels what it is doing right now, if anything.
  void disturb();

  std::uint64_t operations() const { return operations_; }
  const ActorCounts& counts() const { return counts_; }
  const std::string& trouble() const { return trouble_; }

 private:
  /// Blocks read under a lease that lives on.
  struct Held {
    Row& row;
    Lease lease;
    std::vector<BlockView> views;
    std::vector<Moment> reads;  ///< by key; they began before the look-up

    explicit Held(Row& held_row);
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held();
  };

  Status connect();
  void step(std::deque<Actor>& all);
  Status act(std::uint64_t dice);
  Status put(Row& row, bool durable);
  Status read(Row& row);
  Status hold(Row& row);
  Status use_held();
  Status remove(Row& row);
  Status remove_tail(Row& row);
  Status clear();
  Status expire(Row& row);
  Status pin_for_a_moment(Row& row);
  Status give_up_soon(Row& row);
  void judge(const Key& key, const BlockView& view, Moment began);
  Result<Namespace> space(Area area);
  Row& any_row();
  ClientOptions options() const;

  Shelf& shelf_;
  std::string address_;
  Random random_;
  std::mutex client_mutex_;  ///< of the pointer, for disturb()
  std::optional<Client> client_;
  std::map<Area, Namespace> spaces_;
  std::vector<std::unique_ptr<Held>> held_;
  std::atomic<std::uint64_t> operations_{0};
  ActorCounts counts_;
  std::string trouble_;
};

}  // namespace kvstrata::test
