#include "storage/catalog.h"

#include <algorithm>

namespace kvstrata::storage {

Status Catalog::load(const Index& index) {
  KV_ASSIGN(const auto namespaces, index.namespaces());
  KV_ASSIGN(const auto tables, index.tables());
  KV_ASSIGN(const auto epochs, index.epochs());
  KV_ASSIGN(const std::uint64_t next_table, index.number(next_table_name));
  const std::lock_guard lock(mutex_);
  namespaces_.clear();
  by_hash_.clear();
  epochs_.clear();
  tables_.clear();
  for (const auto& [ns, value] : namespaces) {
    namespaces_.emplace(ns, value);
    by_hash_.emplace(namespace_hash(value.spec), ns);
  }
  for (const auto& [name, epoch] : epochs) {
    epochs_[{name.tenant, name.fingerprint}] = epoch;
  }
  tables_.insert(tables.begin(), tables.end());
  next_table_ = std::max(next_table_, static_cast<std::uint32_t>(next_table));
  return {};
}

std::optional<NamespaceId> Catalog::find_namespace(const Hash256& hash) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return std::nullopt;
  return found->second;
}

std::optional<NamespaceValue> Catalog::find_namespace(NamespaceId ns) const {
  const std::lock_guard lock(mutex_);
  const auto found = namespaces_.find(ns);
  if (found == namespaces_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::pair<NamespaceId, NamespaceValue>> Catalog::namespaces() const {
  const std::lock_guard lock(mutex_);
  return {namespaces_.begin(), namespaces_.end()};
}

NamespaceId Catalog::next_namespace() const {
  const std::lock_guard lock(mutex_);
  return {namespaces_.empty() ? 1 : namespaces_.rbegin()->first.value + 1};
}

void Catalog::set_namespace(NamespaceId ns, const NamespaceValue& value) {
  const std::lock_guard lock(mutex_);
  namespaces_[ns] = value;
  by_hash_[namespace_hash(value.spec)] = ns;
}

std::uint64_t Catalog::epoch(std::string_view tenant, std::string_view fingerprint) const {
  const std::lock_guard lock(mutex_);
  const auto found = epochs_.find(std::pair(std::string(tenant), std::string(fingerprint)));
  return found == epochs_.end() ? 0 : found->second;
}

void Catalog::set_epoch(std::string_view tenant, std::string_view fingerprint,
                        std::uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  epochs_[{std::string(tenant), std::string(fingerprint)}] = epoch;
}

std::optional<TableValue> Catalog::find_table(const TableName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(name);
  if (found == tables_.end()) return std::nullopt;
  return found->second;
}

std::vector<TableId> Catalog::tables(NamespaceId ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<TableId> ids;
  for (auto it = tables_.lower_bound({ns, {}}); it != tables_.end() && it->first.ns == ns; ++it) {
    ids.push_back(it->first.table);
  }
  return ids;
}

TableId Catalog::next_table() const {
  const std::lock_guard lock(mutex_);
  return {next_table_};
}

void Catalog::set_table(const TableName& name, const TableValue& value) {
  const std::lock_guard lock(mutex_);
  tables_[name] = value;
  next_table_ = std::max(next_table_, name.table.value + 1);
}

void Catalog::remove_table(const TableName& name) {
  const std::lock_guard lock(mutex_);
  tables_.erase(name);
}

std::optional<TableName> Catalog::unused_table(NamespaceId ns) const {
  const std::lock_guard lock(mutex_);
  for (auto it = tables_.lower_bound({ns, {}}); it != tables_.end() && it->first.ns == ns; ++it) {
    if (it->second.references == 0 && !uses_.contains(it->first)) return it->first;
  }
  return std::nullopt;
}

bool Catalog::begin_use(const TableName& name) {
  const std::lock_guard lock(mutex_);
  if (!tables_.contains(name)) return false;
  ++uses_[name];
  return true;
}

void Catalog::end_use(const TableName& name) {
  const std::lock_guard lock(mutex_);
  const auto found = uses_.find(name);
  KV_CHECK(found != uses_.end(), "end of a use that never began");
  if (--found->second == 0) uses_.erase(found);
}

}  // namespace kvstrata::storage
