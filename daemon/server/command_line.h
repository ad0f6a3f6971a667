// kvstratad's arguments. Stateless; called once, from main().
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "daemon/config/config.h"
#include "kvstrata/result.h"

namespace kvstrata::daemon {

/// What was given; the rest is the configuration file's or the defaults'.
struct CommandLine {
  std::string config_path;
  std::optional<std::string> data, socket, listen, host_memory, disk, admission, log_level;
  int ready_fd = -1;
  bool print_config = false;
};

/// The arguments, or the code to exit with at once (help, version or an error was printed).
std::variant<CommandLine, int> parse_command_line(int argc, char** argv);

/// Loads the file, puts the arguments over it and fills in the defaults.
Result<Config> make_config(const CommandLine& arguments, const Environment& environment);

}  // namespace kvstrata::daemon
