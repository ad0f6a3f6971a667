// STATS: everything that is counted, under the names of doc/metrics.md.
#include "daemon/server/handlers.h"

namespace kvstrata::daemon {

using protocol::Body;

namespace {

Body host_body(const hostmem::ArenaStats& arena) {
  Body body;
  body.set_u64("budget_bytes", arena.budget_bytes)
      .set_u64("chunk_bytes", arena.chunk_bytes)
      .set_u64("slot_bytes_used", arena.slot_bytes_used)
      .set_u64("zombie_bytes", arena.zombie_bytes)
      .set_u64("staging_bytes", arena.staging_bytes)
      .set_u64("chunks", arena.chunks)
      .set_u64("slots_used", arena.slots_used)
      .set_u64("slots_total", arena.slots_total)
      .set_u64("prefaulted_bytes", arena.prefaulted_bytes)
      .set_u64("refused_chunks", arena.refused_chunks);
  return body;
}

Body leases_body(const hostmem::LeaseStats& leases) {
  Body body;
  body.set_u64("active", leases.active)
      .set_u64("created", leases.created)
      .set_u64("released", leases.released)
      .set_u64("expired", leases.expired)
      .set_u64("owner_gone", leases.owner_gone)
      .set_u64("pinned_blocks", leases.pinned_blocks);
  return body;
}

Body store_body(const storage::StoreStats& store, std::string_view admission) {
  Body body;
  body.set_u64("blocks", store.blocks)
      .set_u64("live_bytes", store.live_bytes)
      .set_u64("segment_bytes", store.segment_bytes)
      .set_u64("index_bytes", store.index_bytes)
      .set_u64("index_stalls", store.index_stalls)
      .set_u64("budget_bytes", store.budget_bytes)
      .set_u64("segments", store.segments)
      .set_u64("free_segments", store.free_segments)
      .set_u64("segments_max", store.segments_max)
      .set_u64("segments_openable", store.segments_openable)
      .set_u64("condemned_segments", store.condemned_segments)
      .set_u64("appended_blocks", store.appended_blocks)
      .set_u64("appended_bytes", store.appended_bytes)
      .set_u64("reinserted_bytes", store.reinserted_bytes)
      .set_u64("reclaimed_segments", store.reclaimed_segments)
      .set_u64("dropped_blocks", store.dropped_blocks)
      .set_bool("reclaiming", store.reclaiming)
      .set_u64("group_commits", store.group_commits)
      .set_u64("read_blocks", store.read_blocks)
      .set_u64("read_bytes", store.read_bytes)
      .set_u64("corrupt_records", store.corrupt_records)
      .set_u64("read_errors", store.read_errors)
      .set_u64("write_errors", store.write_errors)
      .set_u64("appends_in_flight", store.appends_in_flight)
      .set_u64("append_bytes_in_flight", store.append_bytes_in_flight)
      .set_text("device", store.device)
      .set_text("admission", admission)
      .set_bool("writable", store.writable);
  return body;
}

Body server_body(const Context& context) {
  const ServerCounters& counted = context.counters;
  Body errors;
  for (const auto& [kind, count] : counted.errors) errors.set_u64(kind, count);
  Body body;
  body.set_u64("connections", context.connections)
      .set_u64("connections_max", context.connections_max)
      .set_u64("connections_accepted", counted.connections_accepted)
      .set_u64("connections_refused", counted.connections_refused)
      .set_u64("connections_closed", counted.connections_closed)
      .set_u64("requests", counted.requests)
      .set_u64("replies_ok", counted.replies_ok)
      .set_u64("replies_error", counted.replies_error)
      .set_u64("requests_expired", counted.requests_expired)
      .set_u64("requests_cancelled", counted.requests_cancelled)
      .set_u64("protocol_errors", counted.protocol_errors)
      .set_u64("authentication_failures", counted.authentication_failures)
      .set_u64("handshake_timeouts", counted.handshake_timeouts)
      .set_u64("stalled_readers", counted.stalled_readers)
      .set_u64("stalled_writers", counted.stalled_writers)
      .set_u64("events_sent", counted.events_sent)
      .set_u64("events_lost", counted.events_lost)
      .set_u64("descriptors_sent", counted.descriptors_sent)
      .set_u64("received_bytes", counted.received_bytes)
      .set_u64("sent_bytes", counted.sent_bytes)
      .set_u64("inline_bytes_in_flight", context.inline_memory->used_bytes())
      .set_u64("inline_waiting", context.inline_memory->waiting())
      .set_bool("draining", context.draining)
      .set_body("errors", errors);
  return body;
}

template <typename Value>
Body map_body(const std::map<std::string, Value>& values) {
  Body body;
  for (const auto& [name, value] : values) {
    if constexpr (std::is_same_v<Value, std::string>) {
      body.set_text(name, value);
    } else {
      body.set_u64(name, value);
    }
  }
  return body;
}

}  // namespace

Status handle_stats(const RequestPtr& request) {
  Session& session = *request->session;
  // Counts of the whole daemon tell a tenant what the others do.
  if (!session.caller().admin && session.context().tenants.has_several()) {
    return Error(ErrorKind::permission_denied, "STATS is for tenants with admin = true");
  }
  const EngineStats stats = session.context().engine.stats(session.caller());
  Reply reply;
  reply.body.set_body("counters", map_body(stats.counters))
      .set_body("gauges", map_body(stats.gauges))
      .set_body("notes", map_body(stats.notes))
      .set_body("host", host_body(stats.arena))
      .set_body("leases", leases_body(stats.leases))
      .set_body("store", store_body(stats.store, stats.admission))
      .set_body("server", server_body(session.context()));
  session.answer_now(*request, std::move(reply));
  return {};
}

}  // namespace kvstrata::daemon
