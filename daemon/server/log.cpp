#include "daemon/server/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>

#include "daemon/server/log_folder.h"

namespace kvstrata::daemon::log {

namespace {

struct Sink {
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>(
      "kvstratad", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  std::mutex mutex;
  LogFolder folder;
  std::map<std::string, LogLevel, std::less<>> levels;

  Sink() { logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v"); }
};

Sink& sink() {
  static Sink instance;
  return instance;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

void write(LogLevel level, std::string_view message) {
  sink().logger->log(level_of(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace

void set_level(LogLevel level) {
  sink().logger->set_level(level_of(level));
}

void debug(std::string_view message) {
  write(LogLevel::debug, message);
}
void info(std::string_view message) {
  write(LogLevel::info, message);
}
void warning(std::string_view message) {
  write(LogLevel::warning, message);
}
void error(std::string_view message) {
  write(LogLevel::error, message);
}

void folded(LogLevel level, std::string_view kind, std::string_view message) {
  std::optional<std::string> line;
  {
    const std::lock_guard lock(sink().mutex);
    sink().levels.insert_or_assign(std::string(kind), level);
    line = sink().folder.offer(kind, message, Clock::system().now());
  }
  if (line) write(level, *line);
}

void print_folded() {
  std::vector<std::pair<LogLevel, std::string>> lines;
  {
    const std::lock_guard lock(sink().mutex);
    for (LogFolder::Folded& folded : sink().folder.due(Clock::system().now())) {
      lines.emplace_back(sink().levels.find(folded.kind)->second, std::move(folded.line));
    }
  }
  for (const auto& [level, line] : lines) write(level, line);
}

}  // namespace kvstrata::daemon::log
