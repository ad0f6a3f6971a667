#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/connect.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

namespace {

using Json = nlohmann::json;

std::uint64_t number(const Json& stats, const char* section, const char* name) {
  const auto part = stats.find(section);
  if (part == stats.end()) return 0;
  const auto value = part->find(name);
  return value != part->end() && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%",
                100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string ratio(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  char text[16];
  std::snprintf(text, sizeof text, "%.2fx", static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string usage(std::uint64_t used, std::uint64_t budget) {
  return human_bytes(used) + " of " + human_bytes(budget) + " (" + percent(used, budget) + ")";
}

// "all" admits every block: nothing more to say of it.
std::string not_admitted(const Json& stats) {
  const std::string policy = stats.value("/store/admission"_json_pointer, std::string());
  if (policy.empty() || policy == "all") return "nothing; every block is written to disk";
  const auto counter = [&](const char* name) {
    return human_count(number(stats, "counters", name));
  };
  return human_bytes(number(stats, "gauges", "unadmitted_bytes")) + " in host memory alone (" +
         policy + "; " + counter("admission_declined_blocks") + " declined, " +
         counter("admission_later_blocks") + " admitted later, " +
         counter("evicted_unadmitted_blocks") + " evicted unwritten)";
}

void print_status(const Json& stats, const ServerInfo& server) {
  const auto counter = [&](const char* name) { return number(stats, "counters", name); };
  const std::uint64_t wanted = counter("lookup_blocks");
  const std::uint64_t hits = counter("hit_blocks_host") + counter("hit_blocks_disk");
  const std::string degraded = stats.value("/notes/degraded"_json_pointer, std::string());
  Table table({"", ""});
  table.add({"daemon", server.server + ", tenant " + server.tenant});
  table.add({"health", degraded.empty() ? "normal" : "degraded: " + degraded});
  table.add({"disk",
             usage(number(stats, "store", "segment_bytes") + number(stats, "store", "index_bytes"),
                   number(stats, "store", "budget_bytes"))});
  table.add({"  blocks", human_count(number(stats, "store", "blocks")) + ", " +
                             human_bytes(number(stats, "store", "live_bytes")) + " live"});
  table.add({"  codec ratio",
             ratio(counter("encoded_raw_bytes"), counter("encoded_frame_bytes")) + " since start"});
  table.add({"host memory", usage(number(stats, "host", "slot_bytes_used"),
                                  number(stats, "host", "budget_bytes"))});
  table.add({"  blocks", human_count(number(stats, "gauges", "blocks_in_host"))});
  table.add({"not yet durable", human_bytes(number(stats, "gauges", "dirty_bytes"))});
  table.add({"not admitted", not_admitted(stats)});
  table.add({"leases", human_count(number(stats, "leases", "active"))});
  table.add({"block hits", percent(hits, wanted) + " of " + human_count(wanted) + " (host " +
                               percent(counter("hit_blocks_host"), wanted) + ", disk " +
                               percent(counter("hit_blocks_disk"), wanted) + ")"});
  table.add({"damaged blocks", human_count(counter("corrupt_blocks"))});
  table.print();
  if (!stats.contains("notes")) return;
  for (const auto& [name, text] : stats["notes"].items()) {
    if (name != "store_id" && name != "degraded" && text.is_string()) {
      std::printf("note: %s\n", text.get<std::string>().c_str());
    }
  }
}

// Every number of the nested map as "section.name", with its rate since `before`.
void add_rows(Table& table, const Json& now, const Json& before, double seconds) {
  for (const auto& [section, values] : now.items()) {
    if (!values.is_object()) continue;
    for (const auto& [name, value] : values.items()) {
      std::string full_name = section;
      full_name.append(".").append(name);
      if (!value.is_number_unsigned()) {
        table.add({std::move(full_name),
                   value.is_string() ? value.get<std::string>() : value.dump(), ""});
        continue;
      }
      const auto count = value.get<std::uint64_t>();
      std::string rate;
      if (seconds > 0 && section == "counters") {
        const std::uint64_t moved = count - number(before, section.c_str(), name.c_str());
        if (moved != 0) {
          rate =
              human_count(static_cast<std::uint64_t>(static_cast<double>(moved) / seconds)) + "/s";
        }
      }
      const bool is_bytes = name.ends_with("bytes") || name.find("_bytes_") != std::string::npos;
      table.add({std::move(full_name), is_bytes ? human_bytes(count) : human_count(count), rate});
    }
  }
}

}  // namespace

int run_status(const StatsOptions& options) {
  auto client = connect(options.target);
  if (!client) return report(client.error());
  const auto text = client->stats();
  if (!text) return report(text.error());
  const Json stats = Json::parse(*text);
  if (options.json) {
    std::printf("%s\n", stats.dump(2).c_str());
  } else {
    print_status(stats, client->server());
  }
  return exit_ok;
}

int run_stats(const StatsOptions& options) {
  auto client = connect(options.target);
  if (!client) return report(client.error());
  Json before;
  for (bool first = true;; first = false) {
    const auto text = client->stats();
    if (!text) return report(text.error());
    Json stats = Json::parse(*text);
    if (options.json) {
      std::printf("%s\n", stats.dump(options.watch_seconds > 0 ? -1 : 2).c_str());
    } else {
      if (options.watch_seconds > 0) std::printf("\033[H\033[2J");
      Table table({"name", ">value", options.watch_seconds > 0 ? ">rate" : ""});
      add_rows(table, stats, before, first ? 0 : options.watch_seconds);
      table.print();
    }
    std::fflush(stdout);
    if (options.watch_seconds <= 0) return exit_ok;
    before = std::move(stats);
    std::this_thread::sleep_for(std::chrono::duration<double>(options.watch_seconds));
  }
}

}  // namespace kvstrata::cli
