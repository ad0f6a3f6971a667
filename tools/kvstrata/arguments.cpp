#include "tools/kvstrata/arguments.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <new>

#include "tools/kvstrata/codec_arguments.h"
#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/exit_code.h"

namespace kvstrata::cli {

namespace {

constexpr const char* overview =
    "Operates a kvstratad: looks into the cache, checks it, clears it.\n"
    "Exit codes: 0 done, 1 failed, 2 usage, 3 no daemon, 4 not found, 5 done in part, 6 damaged.";

/// Everything the commands can be told, filled while parsing.
struct Arguments {
  Target target;
  std::function<int()> command;
  std::vector<std::string> serve;
  DoctorOptions doctor;
  StatsOptions stats;
  ListOptions list;
  PrefixOptions prefix;
  ValueOptions value;
  VerifyOptions verify;
  RecoverOptions recover;
  CodecOptions codec;
  ClearCommand clear;
  EvictOptions evict;
  std::uint32_t ns = 0;
};

CLI::App* add(CLI::App& app, Arguments& arguments, const std::string& name, const std::string& help,
              std::function<int()> command) {
  CLI::App* sub = app.add_subcommand(name, help);
  sub->add_option("--socket,--address", arguments.target.address,
                  "daemon: /path, unix:/path or tcp:host:port (default: KVSTRATA_SOCKET, else the "
                  "daemon's own default)");
  sub->add_option("--token", arguments.target.token, "tenant token (default: KVSTRATA_TOKEN)");
  sub->callback([&arguments, command] { arguments.command = command; });
  return sub;
}

void add_prefix(CLI::App* sub, PrefixOptions& options) {
  sub->add_option("--ns", options.ns, "namespace id, from `kvstrata ls`")->required();
  sub->add_option("--group", options.group, "layer group")->capture_default_str();
  sub->add_option("PREFIX", options.prefix,
                  "token ids 1,2,3 or @FILE from the start of the sequence, or block hashes")
      ->required();
}

void add_looking(CLI::App& app, Arguments& a) {
  auto* doctor = app.add_subcommand("doctor", "check this machine and say what limits the daemon");
  doctor->add_option("--socket,--address", a.target.address, "daemon to look for");
  doctor->add_option("--data", a.doctor.data_directory, "data directory to check");
  doctor->add_flag("--json", a.doctor.json, "machine-readable");
  doctor->callback(
      [&a] { a.command = [&a] { return a.doctor.target = a.target, run_doctor(a.doctor); }; });
  auto* status = add(app, a, "status", "is it well, how full is it, what does it save",
                     [&a] { return a.stats.target = a.target, run_status(a.stats); });
  status->add_flag("--json", a.stats.json, "machine-readable");
  auto* stats = add(app, a, "stats", "every counter and gauge",
                    [&a] { return a.stats.target = a.target, run_stats(a.stats); });
  stats->add_flag("--json", a.stats.json, "machine-readable");
  stats->add_option("--watch", a.stats.watch_seconds, "again each so many seconds, with rates")
      ->check(CLI::Range(0.1, 3600.0));
  auto* ls = add(app, a, "ls", "namespaces, or with --ns the blocks of one",
                 [&a] { return a.list.target = a.target, run_ls(a.list); });
  ls->add_option("--ns", a.list.ns, "namespace id");
  ls->add_option("--limit", a.list.limit, "blocks at most; 0: all")->capture_default_str();
  ls->add_flag("--json", a.list.json, "one JSON object a line");
  auto* inspect = add(app, a, "inspect", "all that is known of the last block of a prefix",
                      [&a] { return a.prefix.target = a.target, run_inspect(a.prefix); });
  add_prefix(inspect, a.prefix);
  auto* explain = add(app, a, "explain", "why a prefix hits or misses",
                      [&a] { return a.prefix.target = a.target, run_explain(a.prefix); });
  add_prefix(explain, a.prefix);
  explain->add_flag("--json", a.prefix.json, "machine-readable");
  auto* verify = add(app, a, "verify", "read every block back and check it; changes nothing",
                     [&a] { return a.verify.target = a.target, run_verify(a.verify); });
  auto* ns = verify->add_option("--ns", a.verify.ns, "only this namespace");
  verify
      ->add_flag("--rescan", a.verify.rescan,
                 "instead, count the store anew from index and directory, and compare")
      ->excludes(ns);
  verify->add_flag("--json", a.verify.json, "machine-readable");
}

void add_recover(CLI::App& app, Arguments& a) {
  auto* recover = app.add_subcommand(
      "recover",
      "bring back what lies aside after an index was lost; kvstratad must not be running.\nBlocks "
      "that were removed may come back with the others: their records were still there");
  recover->add_option("--config", a.recover.config, "kvstratad's configuration file");
  recover->add_option("--data", a.recover.data_directory, "directory of the store");
  recover->add_option("--disk", a.recover.disk, "disk budget, as in 50GiB");
  recover->add_flag("--json", a.recover.json, "machine-readable");
  recover->callback([&a] { a.command = [&a] { return run_recover(a.recover); }; });
}

void add_values(CLI::App& app, Arguments& a) {
  auto* get = add(app, a, "get", "write a stored value to a file",
                  [&a] { return a.value.target = a.target, run_get(a.value); });
  auto* put = add(app, a, "put", "store a file under a key",
                  [&a] { return a.value.target = a.target, run_put(a.value); });
  for (CLI::App* sub : {get, put}) {
    sub->add_option("KEY", a.value.key, "1..256 bytes")->required();
    sub->add_option("FILE", a.value.file, "\"-\": standard input or output")->required();
    sub->add_option("--space", a.value.space, "namespace of such keys")->capture_default_str();
  }
  put->add_flag("--durable", a.value.durable, "answer when it would survive a crash");
  put->add_option("--ttl", a.value.ttl_seconds, "seconds until it expires; 0: never");
}

void add_changing(CLI::App& app, Arguments& a) {
  auto* clear = add(app, a, "clear", "remove blocks from memory and disk",
                    [&a] { return a.clear.target = a.target, run_clear(a.clear); });
  clear->add_option("--ns", a.clear.ns, "one namespace");
  clear->add_option("--prefix", a.clear.prefix,
                    "with --ns: a prefix's last block and what follows");
  clear->add_option("--model", a.clear.model, "everything of a model, by fingerprint");
  clear->add_flag("--all", a.clear.all, "everything of this tenant");
  clear->add_flag("--host-only", a.clear.host_only, "only copies in memory");
  clear->add_flag("--pinned", a.clear.also_pinned, "pinned blocks too");
  auto* evict = add(app, a, "evict", "drop copies from host memory; disk keeps its own",
                    [&a] { return a.evict.target = a.target, run_evict(a.evict); });
  evict->add_option("BYTES", a.evict.bytes, "how much; default: all that may go")
      ->transform(CLI::AsSizeValue(false));
  add_prefix(add(app, a, "pin", "keep the blocks of a prefix whatever the pressure",
                 [&a] { return a.prefix.target = a.target, run_pin(a.prefix, true); }),
             a.prefix);
  add_prefix(add(app, a, "unpin", "let them go again",
                 [&a] { return a.prefix.target = a.target, run_pin(a.prefix, false); }),
             a.prefix);
  add(app, a, "flush", "return when everything stored so far is durable",
      [&a] { return run_flush(a.target); });
}

}  // namespace

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(overview, "kvstrata");
  app.require_subcommand(1);
  app.set_version_flag("--version", KVSTRATA_VERSION);
  auto* serve = app.add_subcommand("serve", "run the daemon (arguments are kvstratad's)");
  serve->prefix_command();
  serve->set_help_flag();
  serve->callback([&] {
    arguments.serve = serve->remaining();
    arguments.command = [&] { return run_serve(arguments.serve); };
  });
  add_looking(app, arguments);
  add_recover(app, arguments);
  add_codec(app, arguments.codec, arguments.command);
  add_values(app, arguments);
  add_changing(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_ok : exit_usage;
  }
  int code = exit_ok;
  try {
    code = arguments.command();
  } catch (const std::bad_alloc&) {
    std::fputs("kvstrata: out of memory; raise the limit, or give it less at a time\n", stderr);
    return exit_failed;
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("kvstrata: its output can't be written\n", stderr);
  return code == exit_ok ? int{exit_failed} : code;
}

}  // namespace kvstrata::cli
