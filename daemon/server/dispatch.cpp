#include "daemon/server/dispatch.h"

#include <array>

#include "daemon/server/handlers.h"
#include "kvstrata/check.h"

namespace kvstrata::daemon {

namespace {

using protocol::Verb;

// Token ids are the largest way to name blocks.
constexpr std::uint64_t names = protocol::tokens_per_request_max * sizeof(std::uint32_t);
constexpr std::uint64_t values = protocol::payload_bytes_max;
constexpr bool admin = true;
constexpr bool while_draining = true;

using Table = std::array<VerbRule, protocol::verb_max + 1>;

constexpr Table make_table() {
  Table table{};
  const auto set = [&](Verb verb, VerbRule rule) { table[static_cast<std::size_t>(verb)] = rule; };
  set(Verb::hello, {handle_hello, 0, !admin, while_draining});
  set(Verb::register_model, {handle_register});
  set(Verb::lookup, {handle_lookup, names});
  set(Verb::group_lookup, {handle_group_lookup, names});
  set(Verb::exists, {handle_exists, names});
  set(Verb::load, {handle_load, names});
  set(Verb::renew, {handle_renew, 0, !admin, while_draining});
  set(Verb::lease_attach, {handle_lease_attach});
  set(Verb::release, {handle_release, 0, !admin, while_draining});
  set(Verb::cancel, {handle_cancel, 0, !admin, while_draining});
  set(Verb::reserve, {handle_reserve});
  set(Verb::commit, {handle_commit, names});
  set(Verb::abort, {handle_abort, 0, !admin, while_draining});
  set(Verb::flush, {handle_flush, 0, !admin, while_draining});
  set(Verb::get, {handle_get, names});
  set(Verb::put, {handle_put, values});
  set(Verb::pin, {handle_pin, names});
  set(Verb::ttl, {handle_ttl, names});
  set(Verb::remove, {handle_delete, names});
  set(Verb::clear, {handle_clear, names});
  set(Verb::epoch_bump, {handle_epoch_bump});
  set(Verb::stats, {handle_stats, 0, !admin, while_draining});
  set(Verb::explain, {handle_explain, names});
  set(Verb::watch, {handle_watch});
  set(Verb::list, {handle_list});
  set(Verb::inspect, {handle_inspect, names});
  set(Verb::evict, {handle_evict, 0, admin});
  set(Verb::verify, {handle_verify, 0, admin});
  set(Verb::chunk_unmapped, {handle_chunk_unmapped, 0, !admin, while_draining});
  return table;
}

constexpr Table table = make_table();

}  // namespace

const VerbRule& rule_of(Verb verb) {
  const auto index = static_cast<std::size_t>(verb);
  KV_CHECK(index < table.size() && table[index].handle != nullptr, "a verb without a handler");
  return table[index];
}

}  // namespace kvstrata::daemon
