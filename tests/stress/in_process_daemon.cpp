#include "in_process_daemon.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace kvstrata::test {

namespace {

daemon::EngineOptions small_daemon(const std::string& directory, std::string admission) {
  daemon::EngineOptions options;
  options.admission = std::move(admission);
  options.store.directory = directory + "/data";
  options.store.disk_budget_bytes = 64_MiB;
  options.arena.budget_bytes = 24_MiB;
  options.arena.chunk_bytes = 1_MiB;
  options.arena.huge_pages = false;
  return options;
}

}  // namespace

InProcessDaemon::InProcessDaemon(std::string admission) {
  directory_ = std::filesystem::temp_directory_path() / "kvstrata-stress-XXXXXX";
  REQUIRE(::mkdtemp(directory_.data()) != nullptr);
  auto engine =
      daemon::Engine::create(small_daemon(directory_, std::move(admission)), loop_.executor());
  REQUIRE_MESSAGE(engine.ok(), (engine ? "" : engine.error().message()));
  engine_ = std::move(*engine);
  daemon::ServerOptions options;
  options.socket_path = directory_ + "/socket";
  options.own_uid = ::geteuid();
  server_ = std::make_unique<daemon::Server>(std::move(options), loop_, *engine_);
  const Status listening = server_->listen();
  REQUIRE_MESSAGE(listening.ok(), (listening ? "" : listening.error().message()));
  control_ = std::thread([this] { loop_.run(); });
}

InProcessDaemon::~InProcessDaemon() {
  loop_.executor().post([this] { server_->drain(Milliseconds(30'000), [this] { loop_.stop(); }); });
  control_.join();
  server_.reset();
  engine_.reset();
  std::filesystem::remove_all(directory_);
}

}  // namespace kvstrata::test
