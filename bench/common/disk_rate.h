// Disk rates measured side by side: candidates take turns in every round, each beginning some, and
// the ratios of a round's own samples are what is compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/common/measure.h"
#include "bench/common/progress.h"

namespace kvstrata::bench {

struct DiskRate {
  double bytes_per_second = 0;
  double cpu_seconds_per_gib = 0;  ///< user and system, of all threads
};

/// One of several ways to move bytes.
struct Mover {
  std::string name;
  std::function<DiskRate()> run;
  std::vector<DiskRate> rates;  ///< one sample a round

  double median_of(double DiskRate::* part) const {
    std::vector<double> values;
    for (const DiskRate& rate : rates) values.push_back(rate.*part);
    return median(values);
  }
};

/// Runs all movers `rounds` times, after one round that is not counted.
inline void take_turns(const std::string& what, std::vector<Mover>& movers, std::size_t rounds) {
  Progress progress(what, rounds);
  for (std::size_t round = 0; round <= rounds; ++round) {
    for (std::size_t turn = 0; turn < movers.size(); ++turn) {
      Mover& mover = movers[(round + turn) % movers.size()];
      const DiskRate rate = mover.run();
      if (round > 0) mover.rates.push_back(rate);
    }
    if (round > 0) progress.at(round);
  }
}

/// The ratios of `mover` to `other`, round by round.
inline std::vector<double> ratios(const Mover& mover, const Mover& other, double DiskRate::* part) {
  std::vector<double> all;
  for (std::size_t i = 0; i < mover.rates.size(); ++i) {
    all.push_back(mover.rates[i].*part / (other.rates[i].*part));
  }
  return all;
}

}  // namespace kvstrata::bench
