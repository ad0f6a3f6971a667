// test_seed(): the seed of a random test, printed so that a failure can be repeated with
// KVSTRATA_SEED=<seed>.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace kvstrata::test {

inline std::uint64_t test_seed(const char* test) {
  const char* fixed = std::getenv("KVSTRATA_SEED");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t seed =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
  std::printf("%s: KVSTRATA_SEED=%llu\n", test, static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

/// A Random is a reproducible source of numbers.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [0, n), n > 0.
  std::uint64_t below(std::uint64_t n) {
    return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(engine_);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvstrata::test
