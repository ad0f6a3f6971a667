// What a Simulation asks a store and compares with its model.
#include <future>

#include "tests/simulation/simulation.h"

namespace kvstrata::simulation {

void Simulation::audit() {
  machine_.settle(*store_);
  apply_events();
  // Faults rest meanwhile, so that every block can be looked at.
  machine_.transfers().clear();
  machine_.index().clear_faults();
  for (int space = 0; space < plan_.spaces && running(); ++space) audit_space(space);
  machine_.settle(*store_);  // blocks that were seen to be expired go
  apply_events();
  if (running()) check_totals();
  if (running()) check_budget();
  machine_.transfers().set_rates(life_.transfers);
}

void Simulation::audit_space(int space) {
  check_listing(space);
  std::vector<Name> names = model_.names();
  std::erase_if(names, [&](const Name& name) { return name.space != space; });
  check(names);
  check_tables(space);
  const Space& known = spaces_[static_cast<std::size_t>(space)];
  const std::string tenant = "tenant " + std::to_string(space);
  if (store_->weight_epoch(tenant, "weights") < known.epoch_min) fail("a weight epoch is lost");
}

void Simulation::check(const std::vector<Name>& names) {
  report_.reads += names.size();
  std::vector<BlockKey> keys;
  for (const Name& name : names) keys.push_back(key_of(name));
  std::vector<std::optional<storage::IndexEntry>> entries(names.size());
  const Status found = store_->find(keys, entries);
  if (!found && !in_doubt()) fail("find: " + found.error().message());
  if (!found || !machine_.power().on()) return;
  std::vector<std::promise<Result<storage::ReadRecord>>> ended(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& entry = entries[i];
    model_.observe(names[i], entry, machine_.clock().unix_ms());
    note((entry ? "found " : "absent ") + to_string(names[i]), entry ? entry->payload_xxh3 : 0);
    if (!entry) continue;
    store_->read(keys[i], *entry, [&ended, i](Result<storage::ReadRecord> record) {
      ended[i].set_value(std::move(record));
    });
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (entries[i]) check_read(names[i], *entries[i], ended[i].get_future().get());
  }
}

void Simulation::check_read(const Name& name, const storage::IndexEntry& entry,
                            const Result<storage::ReadRecord>& record) {
  if (record) {
    model_.check_record(name, entry, *record);
    return;
  }
  note("read failed " + record.error().message(), 0);
  const bool excused =
      record.error().kind() == ErrorKind::io && (in_doubt() || life_.transfers_may_fail());
  if (!excused && machine_.power().on()) {
    fail(to_string(name) + " can't be read: " + record.error().message());
  }
}

void Simulation::check_listing(int space) {
  const NamespaceId id = spaces_[static_cast<std::size_t>(space)].id;
  const auto listed = store_->list(id, std::nullopt, 100'000);
  if (!listed) {
    if (!in_doubt()) fail("list: " + listed.error().message());
    return;
  }
  for (const auto& [key, entry] : *listed) {
    model_.check_listed({space, number_of(key.digest)}, entry);
    if (key.ns != id) fail("a listing of one namespace shows another's block");
  }
}

void Simulation::check_tables(int space) {
  const Space& known = spaces_[static_cast<std::size_t>(space)];
  for (const auto& [id, content] : known.tables) {
    const Result<ByteVector> table = store_->table(known.id, id);
    if (table && *table != content) fail("a table has wrong bytes");
    const bool excused =
        !machine_.power().on() || (!table && table.error().kind() == ErrorKind::io &&
                                   (in_doubt() || life_.transfers_may_fail()));
    if (!table && !excused)
      fail("table " + std::to_string(id.value) + " is lost: " + table.error().message());
  }
}

// Counts in the rows of segments are sums over what the index names.
void Simulation::check_totals() {
  std::uint64_t blocks = 0;
  for (const Space& space : spaces_) {
    const auto listed = store_->list(space.id, std::nullopt, 100'000);
    if (!listed) return;
    blocks += listed->size();
  }
  const storage::StoreStats stats = store_->stats();
  if (!machine_.power().on()) return;
  if (stats.blocks != blocks) {
    fail("the store counts " + std::to_string(stats.blocks) + " blocks and lists " +
         std::to_string(blocks));
  }
  if (stats.corrupt_records > 0) fail("the store met a corrupt record");
}

void Simulation::check_budget() {
  if (!machine_.power().on()) return;
  const std::uint64_t bytes = machine_.segment_file_bytes();
  const std::uint64_t counted = store_->stats().segment_bytes;
  if (bytes > counted) {
    fail("files of " + std::to_string(bytes) + " bytes, of which the store counts " +
         std::to_string(counted));
  }
  if (bytes > budget_bytes_) {
    fail("segments take " + std::to_string(bytes) + " bytes of a budget of " +
         std::to_string(budget_bytes_));
  }
}

}  // namespace kvstrata::simulation
