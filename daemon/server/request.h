// A Request is one message of a client on its way through the engine; a Reply what it is answered.
// Control thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/requests.h"
#include "daemon/protocol/body.h"
#include "kvstrata/bytes.h"
#include "kvstrata/protocol.h"

namespace kvstrata::daemon {

class Session;

struct Request {
  std::shared_ptr<Session> session;
  protocol::Verb verb = protocol::Verb::hello;
  std::uint64_t id = 0;
  protocol::Body body;
  std::shared_ptr<const ByteVector> payload;  ///< null: none
  bool finished = false;                      ///< the engine is done with it

  ByteView payload_bytes() const { return payload ? ByteView(*payload) : ByteView(); }
};
using RequestPtr = std::shared_ptr<Request>;

struct Reply {
  protocol::Body body;
  std::vector<ByteView> payload;  ///< stays where it is until sent; kept alive by `lease`
  std::optional<LeaseId> lease;   ///< held until the payload was sent
  bool release_lease_when_sent = false;
  std::vector<ChunkId> chunks;  ///< the client must have these mapped
  std::function<void()> undo;   ///< run if the reply can not be made; may be empty
};

}  // namespace kvstrata::daemon
