// Measuring side by side: candidates take turns in every round, so that a noisy machine hurts all
// of them alike, and medians over rounds are compared.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kvstrata::bench {

using Seconds = std::chrono::duration<double>;

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

/// The value below which `fraction` of the samples lie.
inline double quantile(std::vector<double> samples, double fraction) {
  std::ranges::sort(samples);
  const auto at =
      static_cast<std::size_t>(fraction * static_cast<double>(samples.size() - 1) + 0.5);
  return samples.at(at);
}

inline double median(const std::vector<double>& samples) {
  return quantile(samples, 0.5);
}

/// One of several ways to do the same amount of work.
struct Candidate {
  std::string name;
  std::function<void()> work;
  std::vector<double> seconds;  ///< one sample a round
};

/// Runs all candidates `rounds` times in turn, after one turn that is not counted.
inline void interleave(std::vector<Candidate>& candidates, std::size_t rounds) {
  for (std::size_t round = 0; round <= rounds; ++round) {
    for (Candidate& candidate : candidates) {
      const double seconds = seconds_of(candidate.work);
      if (round > 0) candidate.seconds.push_back(seconds);
    }
  }
}

}  // namespace kvstrata::bench
