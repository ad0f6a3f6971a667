// Putting whole blocks: split into batches that a message or the daemon's staging memory can hold.
// One thread at a time.
#pragma once

#include "daemon/client/session.h"

namespace kvstrata::client {

/// Bytes of values a batch aims at; a single larger one is a batch of its own.
inline constexpr std::uint64_t batch_bytes = std::uint64_t{32} << 20;
/// Puts of no more than this go in the message even where memory is shared: one round trip.
inline constexpr std::uint64_t small_put_bytes = 32 << 10;

/// RESERVE for `count` slots of blocks of `bytes` (0: as the namespace says).
Result<Reservation> reserve_slots(Session& session, const ConnectionPtr& connection,
                                  const Namespace& ns, std::uint32_t count, std::uint64_t bytes,
                                  std::uint16_t group, const Session::Call& call);

/// Sends COMMIT for the first `count` slots and gives all others back. The id is for
/// finish_commit().
Result<std::uint64_t> send_commit(Session& session, Connection& connection, Reservation reservation,
                                  std::size_t count, const protocol::NewBlocksView& blocks,
                                  const Session::Call& call);
Result<Stored> finish_commit(Connection& connection, std::uint64_t id, std::size_t blocks,
                             const Session::Call& call);

/// What a put brings, all of it.
struct PutRequest {
  const Namespace& ns;
  const NewBlocks& names;
  std::span<const ByteView> values;
  const PutOptions& options;
};

Result<Stored> put_blocks(Session& session, const PutRequest& request, const Session::Call& call);

/// The names as the wire has them, for blocks [first, first + count) of the request.
/// `extras` is storage for shifted indices.
protocol::NewBlocksView names_of(const PutRequest& request, std::uint32_t ns_id, std::size_t first,
                                 std::size_t count, protocol::Extras& extras);

}  // namespace kvstrata::client
