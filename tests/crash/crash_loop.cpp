#include "crash_loop.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "dying_client.h"

namespace kvstrata::test {

namespace {

constexpr std::uint32_t threads_per_tenant = 2;
constexpr std::uint64_t life_bytes_min = 4_MiB;
constexpr int polls_max = 5'000;  // for a moment in which the daemon is at work

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void require(const Status& status, const char* what) {
  REQUIRE_MESSAGE(status.ok(), what, ": ", (status ? "" : status.error().message()));
}

TenantClient connect(const std::string& address, std::uint32_t tenant, bool shared_memory) {
  auto client = TenantClient::connect(address, tenant, shared_memory);
  REQUIRE_MESSAGE(client.ok(), (client ? "" : client.error().message()));
  return std::move(*client);
}

std::filesystem::path write_configuration() {
  std::string path = std::filesystem::temp_directory_path() / "kvstrata-crash-XXXXXX";
  const int fd = ::mkstemp(path.data());
  REQUIRE(fd >= 0);
  ::close(fd);
  std::ofstream file(path);
  for (std::uint32_t tenant = 0; tenant < std::size(tenant_names); ++tenant) {
    file << "[[tenants]]\nname = \"" << tenant_names[tenant] << "\"\ntoken = \"" << token_of(tenant)
         << "\"\n";
  }
  return path;
}

}  // namespace

std::string CrashFigures::json(std::uint64_t seed) const {
  const double rounds = static_cast<double>(std::max<std::uint64_t>(loops, 1));
  char text[1024];
  const int length = std::snprintf(
      text, sizeof text,
      "{\"loops\": %llu, \"durable_acks\": %llu, \"corrupt\": %llu, \"phantom\": %llu, "
      "\"lost\": %llu, \"cross_tenant\": %llu, \"must_keep_checked\": %llu, \"found\": %llu, "
      "\"evicted\": %llu, \"ready_s\": %.3f, \"kills_mid_work_share\": %.3f, "
      "\"restarts_not_emptied_share\": %.3f, \"client_deaths\": %llu, \"seconds\": %.1f, "
      "\"seed\": %llu}\n",
      static_cast<unsigned long long>(loops), static_cast<unsigned long long>(durable_acks),
      static_cast<unsigned long long>(verdicts.corrupt),
      static_cast<unsigned long long>(verdicts.phantom),
      static_cast<unsigned long long>(verdicts.lost),
      static_cast<unsigned long long>(verdicts.cross_tenant),
      static_cast<unsigned long long>(verdicts.must_keep),
      static_cast<unsigned long long>(verdicts.found),
      static_cast<unsigned long long>(verdicts.evicted), ready_s,
      static_cast<double>(kills_mid_work) / rounds,
      static_cast<double>(restarts_not_emptied) / rounds,
      static_cast<unsigned long long>(client_deaths), seconds,
      static_cast<unsigned long long>(seed));
  return {text, static_cast<std::size_t>(length)};
}

CrashLoop::CrashLoop(const CrashOptions& options)
    : options_(options), random_(options.seed), configuration_(write_configuration()) {
  for (std::uint32_t tenant = 0; tenant < std::size(tenant_names); ++tenant) {
    for (std::uint32_t thread = 0; thread < threads_per_tenant; ++thread) {
      workers_.emplace_back(tenant, thread, random_.bits(), traffic_);
    }
  }
  daemon_ = std::make_unique<DaemonProcess>(std::vector<std::string>{
      "--config", configuration_.string(), "--disk", "64MiB", "--log-level", "warning"});
  address_ = "unix:" + daemon_->socket();
}

CrashLoop::~CrashLoop() {
  daemon_.reset();
  std::filesystem::remove(configuration_);
}

CrashFigures CrashLoop::run() {
  const auto began = std::chrono::steady_clock::now();
  for (std::uint64_t loop = 1; loop <= options_.loops; ++loop) {
    live_and_die();
    start_again();
    check_all();
    ++figures_.loops;
    say(loop, last_);
  }
  for (const Worker& worker : workers_) {
    figures_.durable_acks += worker.durable_acks();
    figures_.verdicts.add(worker.seen_live());
  }
  figures_.seconds = seconds_since(began);
  return figures_;
}

void CrashLoop::live_and_die() {
  traffic_.killed = false;
  std::vector<std::thread> threads;
  for (Worker& worker : workers_) {
    threads.emplace_back([this, &worker] { worker.run(address_); });
  }
  {
    Client watcher = daemon_->connect(false);  // as the daemon's own user: statistics of all
    let_clients_die();
    last_ = choose_moment(watcher);
    traffic_.killed = true;
    daemon_->kill_hard();
  }
  for (std::thread& thread : threads) thread.join();
  figures_.kills_mid_work += last_.mid_work() ? 1 : 0;
  figures_.verdicts.corrupt += last_.corrupt;
  for (const Worker& worker : workers_) {
    CHECK_MESSAGE(worker.trouble().empty(), worker.trouble());
  }
}

void CrashLoop::let_clients_die() {
  if (random_.one_in(2)) return;
  require(let_a_client_die(address_, static_cast<std::uint32_t>(random_.below(2)), unborn_++),
          "a client that dies");
  ++figures_.client_deaths;
}

// Some time after the traffic began; three times in four at a moment of encoding or reclaim, else
// wherever the daemon happens to be. What counts is what it said last before it was killed.
Activity CrashLoop::choose_moment(Client& client) {
  const std::uint64_t life_bytes =
      life_bytes_min + random_.below(options_.life_bytes_max - life_bytes_min);
  const bool aimed = !random_.one_in(4);
  const bool at_reclaim = random_.one_in(2);
  Activity last;
  for (int late_polls = 0; late_polls < polls_max;) {
    const Result<Activity> now = activity_of(client);
    REQUIRE_MESSAGE(now.ok(), (now ? "" : now.error().message()));
    last = *now;
    if (last.put_bytes < life_bytes) continue;
    if (!aimed || (at_reclaim ? last.reclaiming : last.mid_work())) break;
    ++late_polls;
  }
  return last;
}

void CrashLoop::start_again() {
  const bool empty_it = random_.one_in(8);
  if (empty_it) {
    std::filesystem::remove_all(daemon_->data());
    for (Worker& worker : workers_) worker.forget_all();
  }
  figures_.restarts_not_emptied += empty_it ? 0 : 1;
  const auto began = std::chrono::steady_clock::now();
  daemon_->start();
  TenantClient client = connect(address_, 0, true);
  const auto seen = client.read(items_of_thread(0, 0).front());
  REQUIRE_MESSAGE(seen.ok(), (seen ? "" : seen.error().message()));
  figures_.ready_s = std::max(figures_.ready_s, seconds_since(began));
}

void CrashLoop::check_all() {
  for (std::uint32_t tenant = 0; tenant < std::size(tenant_names); ++tenant) {
    TenantClient client = connect(address_, tenant, random_.one_in(2));
    for (Worker& worker : workers_) {
      if (worker.tenant() != tenant) continue;
      require(worker.check_all(client, figures_.verdicts), "reading after a restart");
    }
    check_unborn(client);
  }
}

void CrashLoop::check_unborn(TenantClient& client) {
  const auto ns = client.space(ItemKind::value, 0);
  REQUIRE(ns.ok());
  std::vector<std::string> names;
  for (std::uint64_t number = 0; number < unborn_; ++number) {
    names.push_back(name_of_unborn(number));
  }
  if (names.empty()) return;
  const auto existing = client.client().exists(*ns, Selection::of_keys(names));
  REQUIRE_MESSAGE(existing.ok(), (existing ? "" : existing.error().message()));
  for (const std::uint8_t present : existing->each) figures_.verdicts.phantom += present;
}

void CrashLoop::say(std::uint64_t loop, const Activity& last) const {
  std::uint64_t acks = 0;
  for (const Worker& worker : workers_) acks += worker.durable_acks();
  std::printf(
      "loop %llu of %llu: killed while %s; %llu durable acks, %llu found, %llu evicted; "
      "%llu corrupt, %llu phantom, %llu lost, %llu cross-tenant\n",
      static_cast<unsigned long long>(loop), static_cast<unsigned long long>(options_.loops),
      last.reclaiming ? (last.encoding ? "encoding and reclaiming" : "reclaiming")
                      : (last.encoding ? "encoding" : "between two jobs"),
      static_cast<unsigned long long>(acks),
      static_cast<unsigned long long>(figures_.verdicts.found),
      static_cast<unsigned long long>(figures_.verdicts.evicted),
      static_cast<unsigned long long>(figures_.verdicts.corrupt),
      static_cast<unsigned long long>(figures_.verdicts.phantom),
      static_cast<unsigned long long>(figures_.verdicts.lost),
      static_cast<unsigned long long>(figures_.verdicts.cross_tenant));
  std::fflush(stdout);
}

}  // namespace kvstrata::test
