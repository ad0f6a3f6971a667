#include "daemon/engine/frame_writer.h"

#include <utility>

#include "kvstrata/check.h"

namespace kvstrata::daemon {

namespace {

struct Frame {
  storage::FrameBuffer buffer;
  std::uint64_t bytes = 0;
};

}  // namespace

Status FrameWriter::write(ByteView payload, std::uint32_t first_position,
                          storage::AppendRequest& request) const {
  const auto encode = [&](const CodecTables::Stored& stored) -> Result<Frame> {
    Frame frame;
    KV_ASSIGN(frame.buffer, storage::FrameBuffer::take(codec::frame_bytes_max(shape)));
    KV_ASSIGN(frame.bytes,
              codec::encode_frame(shape, stored.parameters.get(), payload, request.payload_xxh3,
                                  frame.buffer.bytes(), codec::best_simd_level(), first_position));
    return frame;
  };
  KV_ASSIGN(Frame frame, encode(tables));
  TableId table = tables.id;
  if (linear.parameters) {
    KV_ASSIGN(Frame other, encode(linear));
    if (other.bytes < frame.bytes) {
      frame = std::move(other);
      table = linear.id;
    }
  }
  const auto info = codec::inspect_frame(ByteView(frame.buffer.bytes()).first(frame.bytes));
  KV_CHECK(info.ok(), "a frame just written is well-formed");
  request.codec = static_cast<std::uint8_t>(info->codec);
  request.table = info->parameters_hash != 0 ? table : TableId{};
  request.frame = std::move(frame.buffer);
  request.frame_bytes = frame.bytes;
  return {};
}

}  // namespace kvstrata::daemon
