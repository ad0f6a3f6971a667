// What becomes of the index when its files fail or lose what was not synced.
#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>

#include "tests/simulation/kit.h"
#include "tests/simulation/simulation.h"

namespace kvstrata::simulation {

using Answer = Bench::Answer;
using Operation = SimulatedDisk::Operation;

TEST_CASE("A power cut at any operation of opening leaves an index that opens") {
  const Place place;
  for (const bool filled : {false, true}) {
    bool reached_the_end = false;
    for (std::uint64_t nth = 1; !reached_the_end; ++nth) {
      CAPTURE(filled);
      CAPTURE(nth);
      Bench bench(place, nth);
      if (filled) {
        REQUIRE(bench.start());
        REQUIRE(bench.put(1).ok());
        bench.stop();
      }
      bench.machine.power().cut_at_operation(nth);
      (void)bench.start();
      reached_the_end = bench.machine.power().on();
      bench.stop();
      REQUIRE(bench.start());
      CHECK(bench.store->opened_empty_because().empty());
      CHECK(bench.get(1) == (filled ? Answer::intact : Answer::absent));
    }
  }
}

TEST_CASE(
    "Names that a failed start left unsynced are synced before the next one goes on with them") {
  const Place place;
  // A start fails to sync the index's directory, and the next one is cut while it opens the index.
  const Report report = Simulation(3'000'059'189, place.store(), false).run();
  for (const std::string& failure : report.failures) CHECK_MESSAGE(false, failure);
  CHECK(report.cuts == 1);
}

TEST_CASE("A failure of the machine while the index is opened refuses the start, and no more") {
  const Place place;
  for (const Operation operation :
       {Operation::open, Operation::read, Operation::append, Operation::sync,
        Operation::sync_directory, Operation::rename, Operation::remove}) {
    bool struck = true;
    for (std::uint64_t nth = 1; struck; ++nth) {
      CAPTURE(static_cast<int>(operation));
      CAPTURE(nth);
      Bench bench(place, nth);
      REQUIRE(bench.start());
      REQUIRE(bench.put(1).ok());
      bench.stop();
      bench.machine.index().plan({.operation = operation, .nth = nth});
      const bool started = bench.start();
      struck = bench.machine.index_faults() > 0;
      if (bench.store) CHECK(bench.store->opened_empty_because().empty());
      if (!started) CHECK(bench.error().kind() == ErrorKind::io);
      bench.stop();
      REQUIRE(bench.start());
      CHECK(bench.store->opened_empty_because().empty());
      CHECK(bench.get(1) == Answer::intact);
    }
  }
}

TEST_CASE("After index writes that found no space the index is written and opened again") {
  const Place place;
  for (const Operation operation :
       {Operation::append, Operation::sync, Operation::sync_directory}) {
    for (std::uint64_t nth = 1; nth <= 4; ++nth) {
      for (const bool from_then_on : {false, true}) {
        CAPTURE(static_cast<int>(operation));
        CAPTURE(nth);
        CAPTURE(from_then_on);
        Bench bench(place, nth);
        REQUIRE(bench.start());
        REQUIRE(bench.put(1).ok());
        bench.stop();
        REQUIRE(bench.start());
        bench.machine.index().plan({operation, nth, from_then_on, ENOSPC, false});
        for (int n = 2; n <= 6; ++n) {
          (void)bench.put(n);
          bench.machine.clock().advance(Milliseconds(600'000));
        }
        bench.machine.index().clear_faults();
        CHECK(bench.put(7).ok());
        bench.stop();
        REQUIRE(bench.start());
        CHECK(bench.get(1) == Answer::intact);
        CHECK(bench.get(7) == Answer::intact);
      }
    }
  }
}

TEST_CASE("An index that failed is not opened anew where its store no longer is") {
  const Place place;
  Bench bench(place, 1);
  REQUIRE(bench.start());
  REQUIRE(bench.put(1).ok());
  bench.machine.index().plan({Operation::append, 1, false, EIO, false});
  REQUIRE_FALSE(bench.put(2).ok());
  const std::string directory = place.store();
  std::filesystem::rename(directory, directory + ".elsewhere");
  bench.machine.clock().advance(Milliseconds(600'000));
  const auto refused = bench.put(3);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind() == ErrorKind::unavailable);
  CHECK_FALSE(std::filesystem::exists(directory));
  std::filesystem::rename(directory + ".elsewhere", directory);
  bench.machine.clock().advance(Milliseconds(600'000));
  CHECK(bench.put(4).ok());
  CHECK(bench.get(1) == Answer::intact);
  CHECK(bench.get(4) == Answer::intact);
}

}  // namespace kvstrata::simulation
