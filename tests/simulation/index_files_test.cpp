// What becomes of the index when its files fail or lose what was not synced.
#include <doctest/doctest.h>

#include "tests/simulation/kit.h"

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

}  // namespace kvstrata::simulation
