#include "daemon/server/log_folder.h"

namespace kvstrata::daemon {

std::optional<std::string> LogFolder::offer(std::string_view kind, std::string_view message,
                                            MonotonicTime now) {
  const auto [found, is_new] = kinds_.try_emplace(std::string(kind));
  Kind& state = found->second;
  if (!is_new && now - state.printed_at < period) {
    ++state.unprinted;
    state.last = message;
    return std::nullopt;
  }
  std::string line(message);
  if (state.unprinted != 0) {
    line += " (and " + std::to_string(state.unprinted) + " more of this kind before)";
  }
  state = {now, 0, {}};
  return line;
}

std::vector<LogFolder::Folded> LogFolder::due(MonotonicTime now) {
  std::vector<Folded> lines;
  for (auto& [kind, state] : kinds_) {
    if (state.unprinted == 0 || now - state.printed_at < period) continue;
    lines.push_back({kind, state.last + " (" + std::to_string(state.unprinted) +
                               " of this kind in the last 10 s)"});
    state = {now, 0, {}};
  }
  return lines;
}

}  // namespace kvstrata::daemon
