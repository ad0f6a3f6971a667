// What becomes of the index when its files fail or lose what was not synced.
#include <doctest/doctest.h>

#include "tests/simulation/kit.h"

namespace kvstrata::simulation {

using Answer = Bench::Answer;

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

}  // namespace kvstrata::simulation
