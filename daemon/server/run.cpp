#include "daemon/server/run.h"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "daemon/config/sizes.h"
#include "daemon/server/control_loop.h"
#include "daemon/server/exit_code.h"
#include "daemon/server/log.h"
#include "daemon/server/server.h"
#include "daemon/server/sockets.h"
#include "daemon/server/version.h"

namespace kvstrata::daemon {

namespace {

constexpr std::uint64_t chunks_max = 512;  // each costs a descriptor here and in every client

storage::DeviceKind device_kind(StoreDevice device) {
  switch (device) {
    case StoreDevice::automatic: return storage::DeviceKind::automatic;
    case StoreDevice::io_uring: return storage::DeviceKind::io_uring;
    case StoreDevice::psync: return storage::DeviceKind::psync;
  }
  return storage::DeviceKind::automatic;
}

EngineOptions engine_options(const Config& config) {
  EngineOptions options;
  options.store.directory = config.store.directory;
  options.store.disk_budget_bytes = config.store.disk_bytes;
  options.store.device = device_kind(config.store.device);
  options.store.segment_bytes = config.store.segment_bytes;
  options.arena.budget_bytes = config.memory.host_bytes;
  options.arena.chunk_bytes =
      std::max(options.arena.chunk_bytes, std::bit_ceil(config.memory.host_bytes / chunks_max));
  options.arena.lock_memory = config.memory.lock;
  options.arena.huge_pages = config.memory.huge_pages;
  options.prefault_bytes = config.memory.prefault_bytes.value_or(0);
  options.codec = config.codec.at_rest;
  options.admission = to_string(config.store.admission);
  const std::size_t cpus = std::max(1u, std::thread::hardware_concurrency());
  options.worker_threads = std::clamp<std::size_t>(cpus / 2, 2, 8);
  options.encode_threads = std::clamp<std::size_t>(cpus / 4, 1, 8);
  return options;
}

Result<ServerOptions> server_options(const Config& config, Engine& engine,
                                     std::uint64_t file_limit) {
  ServerOptions options;
  options.socket_path = config.server.socket;
  options.socket_mode = config.server.socket_mode;
  if (!config.server.listen.empty()) {
    KV_ASSIGN(options.tcp, parse_listen_address(config.server.listen));
  }
  options.tenants = config.tenants;
  options.own_uid = geteuid();
  // Half of the descriptors for clients; the rest is for segments, the index and chunks.
  options.connections_max = std::min<std::uint64_t>(config.server.connections_max,
                                                    std::max<std::uint64_t>(file_limit / 2, 8));
  options.inline_bytes_max = config.server.inline_bytes_max;
  options.limits.handshake = Milliseconds(config.server.handshake_timeout_ms);
  options.limits.stall = Milliseconds(config.server.stall_timeout_ms);
  options.server_name = std::string("kvstratad/") + version;
  const EngineStats stats = engine.stats(Caller{});
  if (const auto id = stats.notes.find("store_id"); id != stats.notes.end()) {
    options.store_id = id->second;
  }
  return options;
}

int fail(const Error& error) {
  log::error(error.message());
  return error.kind() == ErrorKind::locked ? exit_code::locked : exit_code::failure;
}

void say_ready(const Config& config, const Server& server, int ready_fd) {
  std::string line = "kvstratad ready: socket " + config.server.socket;
  if (server.tcp_port() != 0) line += ", tcp port " + std::to_string(server.tcp_port());
  line += ", store " + config.store.directory + " (" + format_size(config.store.disk_bytes) +
          "), host memory " + format_size(config.memory.host_bytes);
  std::fprintf(stderr, "%s\n", line.c_str());
  if (ready_fd < 0) return;
  constexpr std::string_view word = "ready\n";
  if (write(ready_fd, word.data(), word.size()) < 0) log::warning("--ready-fd can't be written");
  close(ready_fd);
}

/// What the engine has to say once about how it started.
void log_notes(const Engine& engine) {
  for (const auto& [name, note] : engine.stats(Caller{}).notes) {
    if (name == "store_id") continue;
    std::string line = name;
    log::warning(line.append(": ").append(note));
  }
}

void drain_on_signal(ControlLoop& loop, Server& server, Milliseconds limit) {
  loop.on_termination([&loop, &server, limit] {
    if (server.context().draining) std::_Exit(exit_code::failure);
    log::info("draining: no new work, making durable what is visible");
    server.drain(limit, [&loop] { loop.stop(); });
  });
}

}  // namespace

int run_daemon(const Config& config, int ready_fd) {
  if (sodium_init() < 0) return fail({ErrorKind::internal, "libsodium can't be initialised"});
  std::signal(SIGPIPE, SIG_IGN);
  log::set_level(config.log.level);
  for (const std::string& warning : config.warnings) log::warning(warning);
  const std::uint64_t file_limit = raise_file_limit();

  ControlLoop loop;
  auto engine = Engine::create(engine_options(config), loop.executor());
  if (!engine) return fail(engine.error());
  log_notes(**engine);
  auto options = server_options(config, **engine, file_limit);
  if (!options) return fail(options.error());
  Server server(std::move(*options), loop, **engine);
  if (const Status listening = server.listen(); !listening) return fail(listening.error());
  drain_on_signal(loop, server, Milliseconds(config.server.drain_timeout_ms));
  say_ready(config, server, ready_fd);
  loop.run();
  log::info("ended");
  return exit_code::success;
}

}  // namespace kvstrata::daemon
