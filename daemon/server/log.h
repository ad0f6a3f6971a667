// The daemon's log: lines on stderr, and folding for what may repeat. Any thread.
#pragma once

#include <string_view>

#include "daemon/config/config.h"

namespace kvstrata::daemon::log {

/// Lines below `level` are dropped. Without a call: info.
void set_level(LogLevel level);

void debug(std::string_view message);
void info(std::string_view message);
void warning(std::string_view message);
void error(std::string_view message);

/// One of many: see LogFolder. `kind` is a literal.
void folded(LogLevel level, std::string_view kind, std::string_view message);
/// Prints the counts that are due; part of the housekeeping.
void print_folded();

}  // namespace kvstrata::daemon::log
