// host_bench: what the host tier and the index cost a local client, against the machine's limits
// and a peer measured in the same run. `tools/dev bench host [--json FILE]`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/common/must.h"
#include "bench/common/process.h"
#include "bench/common/scratch_directory.h"
#include "bench/host/get_bench.h"
#include "bench/host/lookup_bench.h"

namespace kvstrata::bench {

namespace {

struct Options {
  std::string json;
  std::string only;
  std::string daemon = "kvstratad";
  std::string redis = "redis-server";
  std::string directory = std::filesystem::temp_directory_path();
};

/// The daemon on one store in a scratch directory, with the peer beside it.
struct Place {
  explicit Place(const Options& options) : scratch(options.directory) {
    servers = {scratch.path() + "/kvstrata.sock", scratch.path() + "/redis.sock"};
    client_options.address = "unix:" + servers.kvstrata_socket;
    // clang-format off
    daemon_command = {options.daemon, "--data", scratch.path() + "/data",
                      "--socket", servers.kvstrata_socket, "--host-memory", "5GiB",
                      "--disk", "8GiB", "--log-level", "warning"};
    redis_command = {options.redis, "--port", "0", "--unixsocket", servers.redis_socket,
                     "--save", "", "--appendonly", "no", "--dir", scratch.path()};
    // clang-format on
  }

  ScratchDirectory scratch;
  Servers servers;
  ClientOptions client_options;
  std::vector<std::string> daemon_command, redis_command;
};

void measure_get(const Place& place, Figures& figures) {
  const Process daemon(place.daemon_command, place.servers.kvstrata_socket);
  const Process redis(place.redis_command, place.servers.redis_socket);
  const WorkingSet set;
  Client client = must(Client::connect(place.client_options), "connect");
  const Namespace ns = must(client.register_model(megabyte_model()), "register");
  const auto hashes = fill(client, ns, set, place.servers);
  bench_get_against_memcpy(client, ns, hashes, set, figures);
  bench_get_against_redis(client, ns, hashes, place.servers, figures);
}

void measure_lookup(const Place& place, Figures& figures) {
  {
    const Process daemon(place.daemon_command, place.servers.kvstrata_socket);
    Client client = must(Client::connect(place.client_options), "connect");
    fill_index(client, must(client.register_model(index_model()), "register"));
  }
  const Process restarted(place.daemon_command, place.servers.kvstrata_socket);
  Client client = must(Client::connect(place.client_options), "connect");
  const Namespace index = must(client.register_model(index_model()), "register");
  bench_lookup(client, index, place.scratch.path() + "/floor", figures);
}

void run(const Options& options) {
  Figures figures;
  const Place place(options);
  if (options.only.empty() || options.only == "get") measure_get(place, figures);
  if (options.only.empty() || options.only == "lookup") measure_lookup(place, figures);
  figures.write_json(options.json);
}

}  // namespace

}  // namespace kvstrata::bench

int main(int argc, char** argv) {
  kvstrata::bench::Options options;
  if (const char* daemon = std::getenv("KVSTRATAD")) options.daemon = daemon;
  CLI::App app(
      "Measures the host tier and the index of kvstratad beside memcpy, redis and RocksDB");
  app.add_option("--json", options.json, "write the figures to this file");
  app.add_option("--daemon", options.daemon, "kvstratad to measure")->capture_default_str();
  app.add_option("--redis", options.redis, "redis-server to compare with")->capture_default_str();
  app.add_option("--only", options.only, "measure just this part: get or lookup")
      ->check(CLI::IsMember({"get", "lookup"}));
  app.add_option("--directory", options.directory, "where 10 GiB are free")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  kvstrata::bench::run(options);
  return 0;
}
