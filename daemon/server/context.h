// The Context is what all sessions of a server share. Control thread. Lifetime: shared, as requests
// in the engine may outlive the server.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/engine/engine.h"
#include "daemon/server/deadlines.h"
#include "daemon/server/inline_memory.h"
#include "daemon/server/tenants.h"
#include "kvstrata/clock.h"

namespace kvstrata::daemon {

/// Bounds of one connection.
struct SessionLimits {
  std::uint32_t in_flight_max = protocol::requests_in_flight_max;
  std::uint64_t queued_bytes_max = std::uint64_t{64} << 20;  ///< replies; reading stops beyond
  std::uint64_t event_bytes_max = std::uint64_t{8} << 20;    ///< queue a watcher may have
  Milliseconds handshake{30'000};
  Milliseconds stall{30'000};
};

/// What the server counts, by the names of doc/metrics.md.
struct ServerCounters {
  std::uint64_t connections_accepted = 0, connections_refused = 0, connections_closed = 0;
  std::uint64_t requests = 0, replies_ok = 0, replies_error = 0;
  std::uint64_t requests_expired = 0, requests_cancelled = 0;
  std::uint64_t protocol_errors = 0, authentication_failures = 0;
  std::uint64_t stalled_readers = 0, stalled_writers = 0, handshake_timeouts = 0;
  std::uint64_t events_sent = 0, events_lost = 0, descriptors_sent = 0;
  std::uint64_t received_bytes = 0, sent_bytes = 0;
  std::map<std::string, std::uint64_t, std::less<>> errors;  ///< replies by kind
};

struct Context {
  Engine& engine;
  const Clock& clock;
  TenantTable tenants;
  std::shared_ptr<InlineMemory> inline_memory;
  SessionLimits limits;
  DeadlineQueue deadlines;
  std::string server_name;  ///< name/version
  std::string store_id;     ///< hex
  std::array<std::byte, 16> boot{};
  bool draining = false;
  std::uint64_t connections = 0;  ///< open now
  std::uint64_t connections_max = 0;
  ServerCounters counters;
};

}  // namespace kvstrata::daemon
