#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/connect.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/prefix.h"

namespace kvstrata::cli {

namespace {

using Json = nlohmann::json;

/// What every command on a prefix begins with.
struct Opened {
  Client client;
  Namespace ns;
  Prefix prefix;
};

Result<Opened> open(const PrefixOptions& options) {
  KV_ASSIGN(Prefix prefix, parse_prefix(options.prefix));
  KV_ASSIGN(Client client, connect(options.target));
  KV_ASSIGN(Namespace ns, client.open_namespace(options.ns));
  return Opened{std::move(client), std::move(ns), std::move(prefix)};
}

// The digest of the last full block.
Result<Hash256> last_block(const Opened& opened) {
  if (!opened.prefix.hashes.empty()) return opened.prefix.hashes.back();
  const auto hashes =
      prefix_hashes(opened.ns.hash(), opened.prefix.tokens, opened.ns.block_tokens());
  if (!hashes.empty()) return hashes.back();
  return Error(ErrorKind::invalid_argument, std::to_string(opened.prefix.tokens.size()) +
                                                " tokens are less than one block of " +
                                                std::to_string(opened.ns.block_tokens()));
}

}  // namespace

int run_inspect(const PrefixOptions& options) {
  auto opened = open(options);
  if (!opened) return report(opened.error());
  const auto hash = last_block(*opened);
  if (!hash) return report(hash.error());
  const auto text = opened->client.inspect(opened->ns, *hash, options.group);
  if (!text) return report(text.error());
  std::printf("%s\n", Json::parse(*text).dump(2).c_str());
  return exit_ok;
}

int run_explain(const PrefixOptions& options) {
  auto opened = open(options);
  if (!opened) return report(opened.error());
  const auto explained =
      opened->client.explain(opened->ns, opened->prefix.selection(options.group));
  if (!explained) return report(explained.error());
  if (options.json) {
    const Json json = {{"blocks", explained->blocks},
                       {"wanted", explained->wanted},
                       {"reason", explained->reason},
                       {"field", explained->field},
                       {"detail", explained->detail}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%u of %u blocks are stored: %s\n", explained->blocks, explained->wanted,
                explained->reason.c_str());
    if (!explained->detail.empty()) std::printf("%s\n", explained->detail.c_str());
  }
  return explained->blocks == explained->wanted ? exit_ok : exit_missing;
}

int run_pin(const PrefixOptions& options, bool pinned) {
  auto opened = open(options);
  if (!opened) return report(opened.error());
  const auto changed =
      opened->client.pin(opened->ns, opened->prefix.selection(options.group), pinned);
  if (!changed) return report(changed.error());
  std::printf("%u blocks %s, %u not stored\n", changed->changed, pinned ? "pinned" : "unpinned",
              changed->missing);
  return changed->missing == 0 ? exit_ok : exit_partial;
}

}  // namespace kvstrata::cli
