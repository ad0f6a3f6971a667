#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/connect.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

namespace {

using Json = nlohmann::json;

constexpr std::uint32_t page_blocks = 32;

/// What was checked so far, over all namespaces.
struct Totals {
  std::uint64_t checked = 0, bad = 0, bytes = 0;
  std::vector<std::string> bad_keys;
};

Status verify_namespace(Client& client, std::uint32_t id, Totals& totals, Progress& progress) {
  KV_ASSIGN(const Namespace ns, client.open_namespace(id));
  std::optional<ByteVector> after;
  do {
    KV_ASSIGN(const Verification page, client.verify(ns, page_blocks, after));
    totals.checked += page.checked;
    totals.bad += page.bad;
    totals.bytes += page.bytes;
    totals.bad_keys.insert(totals.bad_keys.end(), page.bad_keys.begin(), page.bad_keys.end());
    progress.set(totals.checked);
    after = page.next;
  } while (after);
  return {};
}

Result<Totals> verify(const VerifyOptions& options) {
  KV_ASSIGN(Client client, connect(options.target));
  std::vector<std::uint32_t> ids;
  if (options.ns) {
    ids.push_back(*options.ns);
  } else {
    KV_ASSIGN(const Listing listing, client.list_namespaces());
    for (const std::string& text : listing.entries) {
      ids.push_back(Json::parse(text).at("ns").get<std::uint32_t>());
    }
  }
  KV_ASSIGN(const std::string stats, client.stats());
  Progress progress("verifying",
                    Json::parse(stats).value("/store/blocks"_json_pointer, std::uint64_t{0}));
  Totals totals;
  for (const std::uint32_t id : ids) KV_TRY(verify_namespace(client, id, totals, progress));
  return totals;
}

int print_audit(const Json& audit, bool as_json) {
  const bool is_right = audit.at("wrong_segments") == 0 && audit.at("missing_files").empty() &&
                        audit.at("disk_bytes") <= audit.at("budget_bytes");
  if (as_json) {
    std::printf("%s\n", audit.dump(2).c_str());
    return is_right ? exit_ok : exit_damaged;
  }
  const auto number = [&](const char* name) { return audit.at(name).get<std::uint64_t>(); };
  std::printf("%s segments, %s of them miscounted\n", human_count(number("segments")).c_str(),
              human_count(number("wrong_segments")).c_str());
  std::printf(
      "%s blocks found, %s counted; %s found, %s counted\n",
      human_count(number("blocks_found")).c_str(), human_count(number("blocks_counted")).c_str(),
      human_bytes(number("bytes_found")).c_str(), human_bytes(number("bytes_counted")).c_str());
  std::printf("the directory has %s of %s\n", human_bytes(number("disk_bytes")).c_str(),
              human_bytes(number("budget_bytes")).c_str());
  for (const Json& name : audit.at("missing_files")) {
    std::printf("missing: %s; its blocks are misses\n", name.get<std::string>().c_str());
  }
  for (const Json& name : audit.at("foreign_files")) {
    std::printf("foreign: %s; it is left alone and not counted\n", name.get<std::string>().c_str());
  }
  return is_right ? exit_ok : exit_damaged;
}

Result<std::string> rescan(const VerifyOptions& options) {
  KV_ASSIGN(Client client, connect(options.target));
  return client.audit();
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  if (options.rescan) {
    const auto audit = rescan(options);
    return audit ? print_audit(Json::parse(*audit), options.json) : report(audit.error());
  }
  const auto totals = verify(options);
  if (!totals) return report(totals.error());
  if (options.json) {
    const Json json = {{"checked", totals->checked},
                       {"bad", totals->bad},
                       {"bytes", totals->bytes},
                       {"bad_keys", totals->bad_keys}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%s blocks checked (%s decoded), %s damaged\n",
                human_count(totals->checked).c_str(), human_bytes(totals->bytes).c_str(),
                human_count(totals->bad).c_str());
    for (const std::string& key : totals->bad_keys) std::printf("damaged: %s\n", key.c_str());
    if (totals->bad > 0) {
      std::printf(
          "a damaged block is a miss when it is next asked for; `kvstrata clear` removes "
          "it\n");
    }
  }
  return totals->bad == 0 ? exit_ok : exit_damaged;
}

}  // namespace kvstrata::cli
