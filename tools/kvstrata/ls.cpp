#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/connect.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

namespace {

using Json = nlohmann::json;

constexpr std::uint32_t page_blocks = 1000;

std::string text_of(const Json& entry, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!entry.contains(at)) return "";
  const Json& value = entry[at];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string flags_of(const Json& block) {
  std::string flags;
  flags += block.value("in_host", false) ? "host " : "";
  flags += block.value("on_disk", false) ? "disk " : "";
  flags += block.value("unadmitted", false) ? "unadmitted " : "";
  flags += block.value("pinned", false) ? "pinned " : "";
  if (block.value("leases", 0U) > 0) flags += "leased ";
  if (!flags.empty()) flags.pop_back();
  return flags;
}

int list_namespaces(Client& client, bool json) {
  const auto listing = client.list_namespaces();
  if (!listing) return report(listing.error());
  Table table({">ns", "model", "dtype", ">block tokens", "adapter", "salt", ">epoch", "state"});
  for (const std::string& text : listing->entries) {
    if (json) {
      std::printf("%s\n", text.c_str());
      continue;
    }
    const Json entry = Json::parse(text);
    const bool current = entry.value("epoch", 0U) == entry.value("epoch_now", 0U);
    std::string model = text_of(entry, "/model/fingerprint");
    if (model.size() > 24) model = model.substr(0, 21) + "...";
    table.add({text_of(entry, "/ns"), model, text_of(entry, "/model/dtype"),
               text_of(entry, "/model/block_tokens"), text_of(entry, "/adapter"),
               text_of(entry, "/salt"), text_of(entry, "/epoch"),
               current ? "current" : "outdated"});
  }
  if (!json) table.print();
  return exit_ok;
}

int list_blocks(Client& client, const ListOptions& options) {
  const auto ns = client.open_namespace(*options.ns);
  if (!ns) return report(ns.error());
  Table table({"hash", ">group", ">bytes", ">on disk", "codec", "state"});
  std::uint64_t shown = 0;
  std::optional<ByteVector> after;
  do {
    std::uint64_t wanted = page_blocks;
    if (options.limit != 0) wanted = std::min<std::uint64_t>(wanted, options.limit - shown);
    const auto page = client.list_blocks(*ns, static_cast<std::uint32_t>(wanted), after);
    if (!page) return report(page.error());
    for (const std::string& text : page->entries) {
      ++shown;
      if (options.json) {
        std::printf("%s\n", text.c_str());
        continue;
      }
      const Json block = Json::parse(text);
      table.add({text_of(block, "/hash"), text_of(block, "/group"),
                 human_bytes(block.value("raw_bytes", std::uint64_t{0})),
                 human_bytes(block.value("frame_bytes", std::uint64_t{0})),
                 text_of(block, "/codec"), flags_of(block)});
    }
    after = page->next;
  } while (after && (options.limit == 0 || shown < options.limit));
  if (!options.json) {
    table.print();
    if (after) std::printf("there are more; --limit 0 shows all\n");
  }
  return exit_ok;
}

}  // namespace

int run_ls(const ListOptions& options) {
  auto client = connect(options.target);
  if (!client) return report(client.error());
  return options.ns ? list_blocks(*client, options) : list_namespaces(*client, options.json);
}

}  // namespace kvstrata::cli
