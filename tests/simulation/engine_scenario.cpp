#include <map>

#include "tests/simulation/engine_bench.h"
#include "tests/simulation/memory_faults.h"

namespace kvstrata::simulation {

namespace {

using Name = EngineBench::Name;
using Answer = EngineBench::Answer;

constexpr int blocks = 72;       // more than the segments hold, which hold more than host memory
constexpr int first_small = 28;  // when host memory is full of large ones
constexpr int last_small = 43;
constexpr int evicted_ago = 30;  // what was put so long ago has left host memory
constexpr int late_blocks = 8;   // after the restart
constexpr int judge_block = 1'000;
constexpr int blocks_a_flush = 4;
constexpr int staged_each = 3;

Name name_of(int number) {
  const bool small = (number >= first_small && number <= last_small) || number % 8 == 7;
  return {number, !small};
}

class Scenario {
 public:
  Scenario(const std::string& directory, Disks disks, FaultyCalls& calls)
      : calls_(calls), bench_(directory, disks, calls), disks_(disks) {}

  FaultOutcome run();

 private:
  void put_and_get(int first, int last);
  void put(int number);
  void get(int number);
  void end_batch();
  void check_reason(const std::string& what, ErrorKind kind);
  void judge();
  void judge_puts(int first, const std::string& when);
  void judge_blocks();
  void fail(std::uint64_t FaultOutcome::* figure, std::string what) {
    ++(outcome_.*figure);
    outcome_.what.push_back(std::move(what));
  }

  FaultyCalls& calls_;
  EngineBench bench_;
  const Disks disks_;
  std::map<int, bool> put_;  // and whether it was acknowledged as durable
  std::vector<int> batch_;   // put since the last flush
  FaultOutcome outcome_;
};

// What is answered while nothing but memory is refused.
void Scenario::check_reason(const std::string& what, ErrorKind kind) {
  if (disks_ == Disks::real) return;
  if (kind == ErrorKind::busy || kind == ErrorKind::out_of_memory) return;
  fail(&FaultOutcome::stuck, what + " is answered " + std::string(to_string(kind)));
}

void Scenario::put(int number) {
  const Name name = name_of(number);
  put_[number] = false;
  const auto ended = number % staged_each == 0 ? bench_.put_staged(name) : bench_.put(name);
  if (ended) {
    check_reason("put " + std::to_string(number), *ended);
  } else {
    batch_.push_back(number);
  }
}

void Scenario::get(int number) {
  const Answer answer = bench_.get(name_of(number));
  const std::string block = "block " + std::to_string(number);
  if (answer == Answer::wrong) fail(&FaultOutcome::wrong_bytes, block + " has wrong bytes");
  if (answer == Answer::unreadable) fail(&FaultOutcome::lost, block + " is damaged");
  if (answer == Answer::refused) check_reason(block, bench_.refused_with());
}

// One block that can't be written makes the answer an error: then none of them was promised.
void Scenario::end_batch() {
  const Status flushed = bench_.flush();
  if (!flushed) check_reason("flush", flushed.error().kind());
  for (const int number : batch_) put_[number] = flushed.ok();
  batch_.clear();
}

void Scenario::put_and_get(int first, int last) {
  for (int number = first; number <= last; ++number) {
    put(number);
    get(number / 2);
    if (number >= evicted_ago) get(number - evicted_ago);
    if (number % blocks_a_flush == blocks_a_flush - 1) end_batch();
  }
  end_batch();
}

FaultOutcome Scenario::run() {
  if (bench_.start()) {
    put_and_get(0, blocks - 1);
    bench_.stop();
    if (bench_.start()) put_and_get(blocks, blocks + late_blocks - 1);
  }
  outcome_.struck = calls_.struck();
  calls_.end();
  judge();
  return outcome_;
}

void Scenario::judge_puts(int first, const std::string& when) {
  const Name large{first, true}, small{first + 1, false}, staged{first + 2, true};
  const auto put_one = [&](const Name& name, auto how) {
    put_[name.number] = false;
    if (const auto ended = (bench_.*how)(name)) {
      fail(&FaultOutcome::stuck, "no put " + when + ": " + std::string(to_string(*ended)));
    }
  };
  put_one(large, &EngineBench::put);
  put_one(small, &EngineBench::put);
  put_one(staged, &EngineBench::put_staged);
  if (const Status flushed = bench_.flush(); !flushed) {
    fail(&FaultOutcome::stuck, "no flush " + when + ": " + flushed.error().message());
  }
}

// With the fault gone and time passed everything that was acknowledged is there, and the engine
// works, after another start too.
void Scenario::judge() {
  bench_.advance(Milliseconds(3'600'000));
  if (bench_.running()) judge_puts(judge_block, "when the fault has passed");
  bench_.stop();
  if (!bench_.start()) {
    fail(&FaultOutcome::stuck, "the engine does not start: " + bench_.error().message());
    return;
  }
  judge_blocks();
  judge_puts(judge_block + 10, "after a restart");
  bench_.stop();
}

// What reclaim drops it counts; every other block that ever reached the index is there.
void Scenario::judge_blocks() {
  std::uint64_t present = 0, absent_acknowledged = 0;
  for (const auto& [number, acknowledged] : put_) {
    const Name name = number < judge_block ? name_of(number) : Name{number, number % 10 != 1};
    const Answer answer = bench_.get(name);
    const std::string block = "block " + std::to_string(number);
    present += answer == Answer::intact ? 1 : 0;
    absent_acknowledged += answer == Answer::absent && acknowledged ? 1 : 0;
    if (answer == Answer::wrong) fail(&FaultOutcome::wrong_bytes, block + " has wrong bytes");
    if (answer == Answer::unreadable) fail(&FaultOutcome::lost, block + " is damaged");
    if (answer == Answer::refused) fail(&FaultOutcome::stuck, block + " can't be read");
  }
  const std::uint64_t expected = bench_.appended_blocks() - bench_.dropped_blocks();
  if (present < expected || absent_acknowledged > bench_.dropped_blocks()) {
    fail(&FaultOutcome::lost, std::to_string(present) + " blocks are there of " +
                                  std::to_string(expected) + " that were not dropped");
  }
}

}  // namespace

FaultOutcome run_engine_scenario(const Place& place, Disks disks, FaultyCalls& calls) {
  return Scenario(place.store(), disks, calls).run();
}

}  // namespace kvstrata::simulation
