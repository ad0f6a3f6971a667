#include "storage/recovery/recover.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/config/config.h"
#include "daemon/config/sizes.h"
#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

namespace {

using storage::RecoveryReport;

/// The store that kvstratad would open with the same arguments.
Result<storage::StoreOptions> store_of(const RecoverOptions& options) {
  daemon::Config config;
  if (!options.config.empty()) {
    KV_ASSIGN(config, daemon::load_config(options.config));
  }
  if (!options.data_directory.empty()) config.store.directory = options.data_directory;
  if (!options.disk.empty()) {
    KV_ASSIGN(config.store.disk_bytes, daemon::parse_size(options.disk));
  }
  KV_ASSIGN(config, daemon::resolve(std::move(config), daemon::Environment::of_process()));
  storage::StoreOptions store;
  store.directory = config.store.directory;
  store.disk_budget_bytes = config.store.disk_bytes;
  store.segment_bytes = config.store.segment_bytes;
  return store;
}

/// One bar a phase.
class Phases {
 public:
  void set(std::string_view phase, std::uint64_t done, std::uint64_t total) {
    if (!bar_ || phase_ != phase) {
      bar_.reset();
      phase_ = phase;
      bar_.emplace(phase_, total);
    }
    bar_->set(done);
  }

 private:
  std::string phase_;
  std::optional<Progress> bar_;
};

void print(const RecoveryReport& report) {
  if (report.segments == 0) {
    std::printf("nothing lies aside: the store has its index\n");
    return;
  }
  std::printf("%s blocks recovered (%s) from %s segments\n",
              human_count(report.recovered_blocks).c_str(),
              human_bytes(report.recovered_bytes).c_str(), human_count(report.segments).c_str());
  const std::pair<std::uint64_t, const char*> left_out[] = {
      {report.present, "blocks the store has already"},
      {report.expired, "blocks that expired"},
      {report.outdated, "blocks of weights that changed since"},
      {report.nameless, "blocks whose namespace was not found"},
      {report.incomplete, "blocks of which a part or their codec tables are missing"},
      {report.damaged, "blocks whose checksum differs"},
      {report.refused, "blocks that could not be stored; what lies aside is kept, try again"},
      {report.damaged_pages, "damaged records"},
      {report.unreadable_pages, "pages that can't be read; what lies aside is kept"},
      {report.foreign_segments, "files that are no segments of this store"},
  };
  for (const auto& [count, what] : left_out) {
    if (count > 0) std::printf("  left out: %s %s\n", human_count(count).c_str(), what);
  }
}

void print_json(const RecoveryReport& report) {
  const nlohmann::json json = {{"segments", report.segments},
                               {"foreign_segments", report.foreign_segments},
                               {"records", report.records},
                               {"damaged_pages", report.damaged_pages},
                               {"unreadable_pages", report.unreadable_pages},
                               {"recovered_blocks", report.recovered_blocks},
                               {"recovered_bytes", report.recovered_bytes},
                               {"present", report.present},
                               {"expired", report.expired},
                               {"outdated", report.outdated},
                               {"nameless", report.nameless},
                               {"incomplete", report.incomplete},
                               {"damaged", report.damaged},
                               {"refused", report.refused}};
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

int run_recover(const RecoverOptions& options) {
  const auto store = store_of(options);
  if (!store) return report(store.error());
  Phases phases;
  const auto recovered =
      storage::recover_store(*store, [&](std::string_view phase, std::uint64_t done,
                                         std::uint64_t total) { phases.set(phase, done, total); });
  if (!recovered) {
    const bool in_use = recovered.error().kind() == ErrorKind::locked;
    return report(in_use ? recovered.error().with_context("stop kvstratad first")
                         : recovered.error());
  }
  if (options.json) {
    print_json(*recovered);
  } else {
    print(*recovered);
  }
  const bool all = recovered->refused + recovered->unreadable_pages == 0;
  return all ? exit_ok : exit_partial;
}

}  // namespace kvstrata::cli
