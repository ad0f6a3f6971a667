#include <cstdio>

#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/connect.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/output.h"
#include "tools/kvstrata/prefix.h"

namespace kvstrata::cli {

namespace {

int show(const Result<Removal>& removal) {
  if (!removal) return report(removal.error());
  std::printf("removed %s blocks, %s\n", human_count(removal->removed_blocks).c_str(),
              human_bytes(removal->removed_bytes).c_str());
  if (removal->kept_pinned > 0) {
    std::printf("kept %s pinned blocks; --pinned removes them too\n",
                human_count(removal->kept_pinned).c_str());
  }
  if (removal->kept_leased > 0) {
    std::printf("%s blocks are being read and go when their leases end\n",
                human_count(removal->kept_leased).c_str());
  }
  return removal->kept_pinned + removal->kept_leased == 0 ? exit_ok : exit_partial;
}

Result<Removal> clear(const ClearCommand& options) {
  const int scopes = (options.ns ? 1 : 0) + (options.model.empty() ? 0 : 1) + (options.all ? 1 : 0);
  if (scopes != 1 || (!options.prefix.empty() && !options.ns)) {
    return Error(ErrorKind::invalid_argument,
                 "say what to clear: --all, --model FINGERPRINT, or --ns N [--prefix PREFIX]");
  }
  ClearOptions how;
  how.host_only = options.host_only;
  how.also_pinned = options.also_pinned;
  how.fingerprint = options.model;
  how.scope = options.all ? ClearOptions::Scope::tenant : ClearOptions::Scope::model;
  Prefix prefix;
  if (!options.prefix.empty()) {
    KV_ASSIGN(prefix, parse_prefix(options.prefix));
  }
  KV_ASSIGN(Client client, connect(options.target));
  if (!options.ns) return client.clear(how);
  KV_ASSIGN(const Namespace ns, client.open_namespace(*options.ns));
  return options.prefix.empty() ? client.clear(ns, how)
                                : client.clear_prefix(ns, prefix.selection(0), how);
}

}  // namespace

int run_clear(const ClearCommand& options) {
  const auto removal = clear(options);
  if (!removal && removal.error().kind() == ErrorKind::invalid_argument) {
    report(removal.error());
    return exit_usage;
  }
  return show(removal);
}

int run_evict(const EvictOptions& options) {
  auto client = connect(options.target);
  if (!client) return report(client.error());
  return show(client->evict(options.bytes == 0 ? UINT64_MAX >> 1 : options.bytes));
}

int run_flush(const Target& target) {
  auto client = connect(target);
  if (!client) return report(client.error());
  const auto sequence = client->flush();
  if (!sequence) return report(sequence.error());
  std::printf("durable up to sequence %s\n", human_count(*sequence).c_str());
  return exit_ok;
}

}  // namespace kvstrata::cli
