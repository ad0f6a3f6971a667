#include "stressor.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <deque>
#include <fstream>
#include <thread>

#include "in_process_daemon.h"
#include "tests/crash/statistics.h"

namespace kvstrata::test {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// What the process has for itself; memory shared with clients has a budget of its own.
std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::strtoll(line.c_str() + 8, nullptr, 10) * 1024;
  }
  return 0;
}

void add(ActorCounts& sum, const ActorCounts& one) {
  sum.operations += one.operations;
  sum.reads_judged += one.reads_judged;
  sum.impossible_reads += one.impossible_reads;
  sum.leases_expired += one.leases_expired;
  sum.gave_up += one.gave_up;
}

void add_statistics(const std::string& address, StressFigures& figures) {
  auto client = Client::connect({.address = address});
  REQUIRE(client.ok());
  const auto text = client->stats();
  REQUIRE(text.ok());
  figures.damaged = number_in(*text, "corrupt_blocks") + number_in(*text, "corrupt_records");
  figures.reclaimed_segments = number_in(*text, "reclaimed_segments");
  figures.evicted_blocks = number_in(*text, "evicted_blocks");
}

}  // namespace

std::string StressFigures::json(std::uint64_t seed) const {
  char text[640];
  const int length = std::snprintf(
      text, sizeof text,
      "{\"minutes\": %.2f, \"operations\": %llu, \"impossible_reads\": %llu, \"reads_judged\": "
      "%llu, \"leases_expired\": %llu, \"gave_up\": %llu, \"reclaimed_segments\": %llu, "
      "\"evicted_blocks\": %llu, \"seed\": %llu, \"resident_growth_bytes\": %lld",
      minutes, static_cast<unsigned long long>(counts.operations),
      static_cast<unsigned long long>(impossible_reads()),
      static_cast<unsigned long long>(counts.reads_judged),
      static_cast<unsigned long long>(counts.leases_expired),
      static_cast<unsigned long long>(counts.gave_up),
      static_cast<unsigned long long>(reclaimed_segments),
      static_cast<unsigned long long>(evicted_blocks), static_cast<unsigned long long>(seed),
      static_cast<long long>(resident_bytes.back() - resident_bytes.front()));
  std::string json(text, static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < resident_bytes.size(); ++i) {
    json += ", \"resident_bytes_" + std::to_string(i + 1) + "\": ";
    json += std::to_string(resident_bytes[i]);
  }
  return json + "}\n";
}

StressFigures stress(const StressOptions& options) {
  const InProcessDaemon daemon(options.admission);
  Shelf shelf(options.duration > std::chrono::seconds(20));
  std::deque<Actor> actors;  // in place: they have mutexes
  for (std::size_t i = 0; i < options.actors; ++i) {
    actors.emplace_back(shelf, daemon.address(), options.seed + i);
  }
  const SteadyTime began = std::chrono::steady_clock::now();
  const SteadyTime end = began + options.duration;
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < options.actors; ++i) {
    threads.emplace_back([&, i] { actors[i].run(end, actors); });
  }
  StressFigures figures;
  for (std::size_t i = 0; i < figures.resident_bytes.size(); ++i) {
    const auto until = options.duration * (i + 1) / figures.resident_bytes.size();
    actors.front().run(began + until, actors);
    figures.resident_bytes[i] = resident_bytes();
  }
  for (std::thread& thread : threads) thread.join();
  figures.minutes =
      std::chrono::duration<double, std::ratio<60>>(std::chrono::steady_clock::now() - began)
          .count();
  for (const Actor& actor : actors) {
    add(figures.counts, actor.counts());
    CHECK_MESSAGE(actor.trouble().empty(), actor.trouble());
  }
  add_statistics(daemon.address(), figures);
  return figures;
}

}  // namespace kvstrata::test
