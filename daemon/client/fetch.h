// Fetching: what LOAD and GET answer, turned into views or into bytes at the caller's place, from
// shared memory or from the message itself. One thread at a time.
#pragma once

#include <vector>

#include "daemon/client/session.h"

namespace kvstrata::client {

/// A LOAD or GET reply: per block a status (0 or an ErrorKind) and where the block is.
struct BlockReply {
  std::vector<std::uint8_t> status;
  std::vector<protocol::BlockRef> refs;

  std::size_t size() const { return refs.size(); }
  bool ok(std::size_t i) const { return status[i] == 0; }
  Error error(std::size_t i) const;
};

/// Says what the request was answered with; `blocks` has one entry per block of the reply.
struct Views {
  protocol::Body body;
  std::vector<BlockView> blocks;
};

/// Sends a LOAD or GET and makes views of its reply, which may have at most `blocks_max` blocks.
Result<Views> fetch_views(const Session& session, Connection& connection, Outgoing request,
                          std::size_t blocks_max, const Session::Call& call);

/// Statuses of `outs.size()` blocks that were brought to outs[i]; `not_found` for those the reply
/// does not have.
struct Copies {
  protocol::Body body;
  std::vector<Status> status;
  std::vector<std::uint64_t> bytes;  ///< of each block, whether or not it fitted
};

Result<Copies> fetch_into(const Session& session, Connection& connection, Outgoing request,
                          std::span<const MutableBytes> outs, const Session::Call& call);

}  // namespace kvstrata::client
