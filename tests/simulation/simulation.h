// A Simulation is one run of a store on a simulated machine, all of it decided by a seed: what is
// put, read, pinned, erased; what fails; when the power goes. After each start everything the store
// says is compared with a model. doc/simulation.md tells what is simulated and what is not.
//
// Threads: one, beside the store's own. Lifetime: one run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/machine.h"
#include "tests/simulation/model.h"
#include "tests/simulation/plan.h"

namespace kvstrata::simulation {

struct Report {
  std::uint64_t seed = 0;
  std::vector<std::string> failures;  ///< empty: all was as it should be
  std::uint64_t lives = 0, cuts = 0, steps = 0;
  std::uint64_t puts = 0, reads = 0, reclaimed = 0;
  std::uint64_t outcome = 0;  ///< a sum over all answers: equal runs have equal ones
};

class Simulation {
 public:
  /// `directory` is a place for the store's lock; runs may use one after another. With `traced`
  /// everything that happens is printed.
  Simulation(std::uint64_t seed, const std::string& directory, bool traced = false);

  Report run();

 private:
  struct Event {  // in the order the writer thread told them
    BlockKey key;
    std::optional<State> put;    // none: the block was dropped
    std::optional<Error> error;  // of a put
  };
  /// A namespace as the simulation uses it.
  struct Space {
    NamespaceId id;
    std::map<TableId, ByteVector> tables;
    std::uint64_t epoch_min = 0;
    bool known = false;
  };

  // lives
  void tell(const LifePlan& plan) const;
  void live(const LifePlan& plan);
  void end_life();
  bool open(const LifePlan& plan);
  bool register_spaces();
  bool running() const { return machine_.power().on() && model_.failures().empty(); }

  // steps: what a user of the store does
  void step();
  void put_some();
  bool start_put(const Name& name);
  Version draw_version(const Name& name);
  void read_some();
  void show_interest();
  void alter_some();
  void erase_some();
  void erase_space();
  void pass_time();
  void add_table();
  void bump_epoch();
  Name draw_name();

  // events and doubts
  void apply_events();
  void apply_put(const Name& name, const Event& event);
  void apply_drop(const Name& name);
  void widen_by_doubts();
  void evictables_may_be_gone();
  bool in_doubt() const;
  void note(const std::string& what, std::uint64_t value);

  // what the store says
  void audit();
  void audit_space(int space);
  /// Asks for these blocks, and reads those that are there, all at once.
  void check(const std::vector<Name>& names);
  void check_read(const Name& name, const storage::IndexEntry& entry,
                  const Result<storage::ReadRecord>& record);
  void check_listing(int space);
  void check_tables(int space);
  void check_totals();
  void check_budget();
  void fail(const std::string& what);

  BlockKey key_of(const Name& name) const;
  Name name_of(const BlockKey& key) const;
  storage::AppendRequest request_of(const Name& name, const State& state) const;

  const bool traced_;
  Report report_;
  std::mt19937_64 random_;
  Plan plan_;
  Machine machine_;
  Model model_;
  LifePlan life_;
  std::vector<Space> spaces_;
  std::unique_ptr<storage::Store> store_;
  std::map<Name, int> held_;
  std::uint64_t budget_bytes_ = 0;  // the largest so far: pins may keep a store from shrinking
  std::uint64_t last_budget_bytes_ = 0;
  std::uint64_t syncs_failed_seen_ = 0, index_faults_at_start_ = 0;
  bool wakes_writer_ = false;  // this step gave the writer something to do
  std::set<Name> put_now_;     // blocks whose puts may be newer than a drop that is told next

  std::mutex events_mutex_;
  std::vector<Event> events_;
};

}  // namespace kvstrata::simulation
