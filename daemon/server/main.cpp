// kvstratad: the storage daemon. doc/configuration.md is its manual.
#include <cstdio>

#include "daemon/server/command_line.h"
#include "daemon/server/exit_code.h"
#include "daemon/server/run.h"

int main(int argc, char** argv) {
  using namespace kvstrata::daemon;
  const auto parsed = parse_command_line(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const CommandLine& arguments = std::get<CommandLine>(parsed);
  const auto config = make_config(arguments, Environment::of_process());
  if (!config) {
    std::fprintf(stderr, "kvstratad: %s\n", config.error().message().c_str());
    return exit_code::usage;
  }
  if (arguments.print_config) {
    std::fputs(to_toml(*config).c_str(), stdout);
    return exit_code::success;
  }
  return run_daemon(*config, arguments.ready_fd);
}
