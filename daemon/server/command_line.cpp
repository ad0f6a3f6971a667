#include "daemon/server/command_line.h"

#include <CLI/CLI.hpp>

#include "daemon/config/listen_address.h"
#include "daemon/config/sizes.h"
#include "daemon/server/exit_code.h"
#include "daemon/server/version.h"

namespace kvstrata::daemon {

namespace {

void add_options(CLI::App& app, CommandLine& arguments) {
  app.add_option("--config", arguments.config_path, "Configuration file (TOML)")->type_name("FILE");
  app.add_option("--data", arguments.data, "Directory of the store")->type_name("DIR");
  app.add_option("--socket", arguments.socket, "Path of the Unix socket")->type_name("PATH");
  app.add_option("--listen", arguments.listen, "Offer TCP there too, as in 127.0.0.1:7410")
      ->type_name("ADDR");
  app.add_option("--host-memory", arguments.host_memory, "Host tier, as in 16GiB")
      ->type_name("SIZE");
  app.add_option("--disk", arguments.disk, "Disk budget, as in 50GiB")->type_name("SIZE");
  app.add_option("--admission", arguments.admission,
                 "Which blocks are written to disk: all or second-use")
      ->type_name("POLICY");
  app.add_option("--log-level", arguments.log_level, "debug, info, warning or error")
      ->type_name("LEVEL");
  app.add_option("--ready-fd", arguments.ready_fd,
                 "Write \"ready\\n\" to this descriptor when ready")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000));
  app.add_flag("--print-config", arguments.print_config, "Print the whole configuration and exit");
  app.set_version_flag("--version", std::string("kvstratad ") + version);
}

/// `target` from an argument, if it was given.
template <typename T, typename Parse>
Status take(const std::optional<std::string>& argument, std::string_view name, T& target,
            Parse parse) {
  if (!argument) return {};
  auto value = parse(*argument);
  if (!value) return value.error().with_context(name);
  target = std::move(value).value();
  return {};
}

Result<std::string> parse_listen_text(std::string_view text) {
  KV_TRY(parse_listen_address(text));
  return std::string(text);
}

Result<std::uint64_t> parse_size_from(std::string_view text, std::uint64_t min) {
  KV_ASSIGN(const std::uint64_t bytes, parse_size(text));
  if (bytes >= min) return bytes;
  return Error(ErrorKind::invalid_argument, "must be at least " + format_size(min));
}

Status apply(const CommandLine& arguments, Config& config) {
  if (arguments.data) config.store.directory = *arguments.data;
  if (arguments.socket) config.server.socket = *arguments.socket;
  KV_TRY(take(arguments.listen, "--listen", config.server.listen, parse_listen_text));
  KV_TRY(take(arguments.host_memory, "--host-memory", config.memory.host_bytes,
              [](auto text) { return parse_size_from(text, host_bytes_min); }));
  KV_TRY(take(arguments.disk, "--disk", config.store.disk_bytes,
              [](auto text) { return parse_size_from(text, disk_bytes_min); }));
  KV_TRY(take(arguments.admission, "--admission", config.store.admission, parse_store_admission));
  KV_TRY(take(arguments.log_level, "--log-level", config.log.level, parse_log_level));
  return {};
}

}  // namespace

std::variant<CommandLine, int> parse_command_line(int argc, char** argv) {
  CommandLine arguments;
  try {
    CLI::App app("kvstratad keeps the KV caches of LLM servers: in memory, on NVMe, exactly.");
    app.footer(
        "Without arguments it serves a Unix socket of its user. doc/configuration.md "
        "explains every key.");
    add_options(app, arguments);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? exit_code::success : exit_code::usage;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvstratad: %s\n", error.what());
    return exit_code::usage;
  }
  return arguments;
}

Result<Config> make_config(const CommandLine& arguments, const Environment& environment) {
  Config config;
  if (!arguments.config_path.empty()) {
    KV_ASSIGN(config, load_config(arguments.config_path));
  }
  KV_TRY(apply(arguments, config));
  return resolve(std::move(config), environment);
}

}  // namespace kvstrata::daemon
