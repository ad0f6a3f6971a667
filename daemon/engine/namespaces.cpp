#include "daemon/engine/namespaces.h"

#include <algorithm>
#include <ranges>

namespace kvstrata::daemon {

CodecTables::Stored CodecTables::current(codec::CodecId codec) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, parameters] : std::views::reverse(by_id_)) {
    if (parameters->codec() == codec) return {id, parameters};
  }
  return {};
}

CodecTables::Parameters CodecTables::find(TableId id) const {
  const std::scoped_lock lock(mutex_);
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : at->second;
}

void CodecTables::add(TableId id, Parameters parameters) {
  const std::scoped_lock lock(mutex_);
  by_id_[id] = std::move(parameters);
}

void CodecTables::forget(TableId id) {
  const std::scoped_lock lock(mutex_);
  by_id_.erase(id);
}

codec::BlockShape Namespace::shape(std::uint16_t group_index, std::uint64_t raw_bytes) const {
  if (is_opaque()) return codec::BlockShape::opaque(model().dtype, raw_bytes);
  return groups.at(group_index).shape;
}

Status Namespaces::load() {
  for (storage::NamespaceRecord& record : core_.store->namespaces()) {
    Namespace* ns = adopt(std::move(record));
    KV_TRY(load_tables(*ns));
  }
  return {};
}

Namespace* Namespaces::adopt(storage::NamespaceRecord record) {
  auto ns = std::make_unique<Namespace>();
  ns->record = std::move(record);
  for (const LayerGroup& group : ns->model().groups) {
    LayerGroupState state;
    state.shape = codec::BlockShape::of(ns->model(), group);
    state.block_bytes = block_bytes(ns->model(), group);
    ns->groups.push_back(std::move(state));
  }
  Namespace* kept = ns.get();
  by_id_[kept->record.id] = std::move(ns);
  return kept;
}

Status Namespaces::load_tables(Namespace& ns) {
  for (const TableId id : core_.store->tables(ns.record.id)) {
    const auto packed = core_.store->table(ns.record.id, id);
    // Frames that need damaged ones become misses, the rest of the store is fine; other errors may
    // pass, and nothing is to be lost to them.
    if (!packed && packed.error().kind() != ErrorKind::corrupt) return packed.error();
    if (!packed || packed->size() < 2) continue;
    const auto group = load_le<std::uint16_t>(packed->data());
    auto parameters = codec::CodecParameters::parse(ByteView(*packed).subspan(2));
    if (!parameters || (!ns.is_opaque() && group >= ns.groups.size())) continue;
    ns.group(group).tables->add(id, *parameters);
  }
  return {};
}

Result<Namespace*> Namespaces::add(const NamespaceSpec& spec, TenantId tenant) {
  KV_ASSIGN(const NamespaceId id, core_.store->register_namespace(spec));
  Namespace* ns = get(id);
  if (ns == nullptr) {
    storage::NamespaceRecord record;
    record.id = id;
    record.hash = namespace_hash(spec);
    record.tenant = spec.tenant;
    record.spec = spec;
    record.created_unix_ms = core_.clock.unix_ms();
    ns = adopt(std::move(record));
  }
  ns->tenant = tenant;
  return ns;
}

Result<Namespace*> Namespaces::find(const Caller& caller, NamespaceId id) {
  KV_ASSIGN(Namespace * ns, find_any_epoch(caller, id));
  const auto& spec = ns->record.spec;
  const std::uint64_t epoch = core_.store->weight_epoch(spec.tenant, spec.model.fingerprint);
  if (epoch != spec.weight_epoch) {
    return Error(ErrorKind::epoch_changed,
                 "the weights of model " + spec.model.fingerprint + " changed; register again");
  }
  return ns;
}

Result<Namespace*> Namespaces::find_any_epoch(const Caller& caller, NamespaceId id) {
  Namespace* ns = get(id);
  if (ns == nullptr || ns->record.tenant != caller.tenant_name) {
    return Error(ErrorKind::not_found,
                 "namespace " + std::to_string(id.value) + " is not registered; REGISTER first");
  }
  ns->tenant = caller.tenant;
  return ns;
}

Namespace* Namespaces::get(NamespaceId id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : at->second.get();
}

std::vector<Namespace*> Namespaces::of_tenant(const Caller& caller) {
  std::vector<Namespace*> found;
  for (const auto& [id, ns] : by_id_) {
    if (ns->record.tenant == caller.tenant_name) found.push_back(ns.get());
  }
  std::ranges::sort(found, {}, [](const Namespace* ns) { return ns->record.id; });
  return found;
}

ByteVector pack_parameters(std::uint16_t group, const codec::CodecParameters& parameters) {
  const ByteVector bytes = parameters.serialize();
  ByteVector packed(sizeof group + bytes.size());
  store_le(packed.data(), group);
  std::ranges::copy(bytes, packed.begin() + sizeof group);
  return packed;
}

}  // namespace kvstrata::daemon
