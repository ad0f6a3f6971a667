#include "daemon/server/events.h"

namespace kvstrata::daemon {

EncodedEvent encode_event(const Event& event) {
  EncodedEvent encoded;
  protocol::Body& body = encoded.body;
  const auto about_blocks = [&](std::string_view name) {
    body.set_text("event", name)
        .set_u64("ns", event.ns.value)
        .set_u64("group", event.group)
        .set_u64("tier", static_cast<std::uint64_t>(event.tier));
    const ByteView hashes = bytes_of(std::span(event.hashes));
    encoded.payload.assign(hashes.begin(), hashes.end());
  };
  switch (event.kind) {
    case Event::Kind::chunks_retired: {
      std::vector<std::uint64_t> chunks;
      for (const ChunkId chunk : event.chunks) chunks.push_back(chunk.value);
      body.set_text("event", "chunks_retired").set_u64s("chunks", chunks);
      break;
    }
    case Event::Kind::stored: about_blocks("stored"); break;
    case Event::Kind::removed: about_blocks("removed"); break;
    case Event::Kind::epoch_changed:
      body.set_text("event", "epoch_changed")
          .set_text("fingerprint", event.fingerprint)
          .set_u64("epoch", event.weight_epoch);
      break;
  }
  return encoded;
}

}  // namespace kvstrata::daemon
