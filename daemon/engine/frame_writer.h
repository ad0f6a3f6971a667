// A FrameWriter encodes a payload with the codecs a block may have, and keeps the shortest frame.
// Plain data; any thread.
#pragma once

#include <cstdint>

#include "daemon/engine/namespaces.h"
#include "storage/store.h"

namespace kvstrata::daemon {

struct FrameWriter {
  codec::BlockShape shape;
  CodecTables::Stored tables, linear;  ///< none: that codec is left out; neither: raw

  /// Fills in the request's frame, its length, codec and table. The payload's sum is there already.
  Status write(ByteView payload, std::uint32_t first_position,
               storage::AppendRequest& request) const;
};

}  // namespace kvstrata::daemon
