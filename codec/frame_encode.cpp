
#include <string>
#include <vector>

#include "codec/codec.h"
#include "codec/frame_format.h"
#include "codec/geometry.h"
#include "codec/kernels.h"
#include "codec/static_coder.h"
#include "codec/static_tables.h"
#include "codec/substream_bytes.h"
#include "kvstrata/checksum.h"

namespace kvstrata::codec {

namespace {

Error invalid(const std::string& what) {
  return {ErrorKind::invalid_argument, "encode frame: " + what};
}

Status check_arguments(const BlockShape& shape, const TableSet* tables, ByteView payload,
                       MutableBytes out) {
  KV_TRY(check_shape(shape));
  if (payload.size() != shape.raw_bytes()) {
    return invalid("payload of " + std::to_string(payload.size()) + " bytes, the shape has " +
                   std::to_string(shape.raw_bytes()));
  }
  if (out.size() < frame_bytes_max(shape)) return invalid("output below frame_bytes_max()");
  if (tables != nullptr && tables->dimensions() != TableSet::Dimensions::of(shape)) {
    return invalid("tables of another shape");
  }
  return {};
}

/// Writes one sub-stream at the start of `out` and describes it; static if that gains.
DirectoryEntry encode_substream(const Kernels& kernels, const BlockShape& shape,
                                const TableSet* tables, std::uint32_t index, ByteView payload,
                                MutableBytes out) {
  const Placement place = placement_of(shape, index);
  DirectoryEntry entry{};
  entry.decoded_xxh3 = hash_substream(place, payload.data());
  if (tables != nullptr) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(payload.data());
    const StaticEncoded encoded = encode_static(kernels, *tables, index, place, bytes, out);
    entry.encoded_bytes = static_cast<std::uint32_t>(encoded.bytes);
    entry.table = encoded.table;
    entry.kind = SubstreamKind::static_coded;
    if (encoded.bytes != 0) return entry;
    entry.table = 0;
  }
  entry.kind = SubstreamKind::raw;
  entry.encoded_bytes = static_cast<std::uint32_t>(place.bytes());
  pack_substream(place, payload.data(), out.data());
  return entry;
}

}  // namespace

std::uint64_t frame_bytes_max(const BlockShape& shape) {
  return sizeof(FrameHeader) + shape.substreams() * sizeof(DirectoryEntry) + shape.raw_bytes();
}

Result<std::uint64_t> encode_frame(const BlockShape& shape, const StaticTables* tables,
                                   ByteView payload, std::uint64_t payload_xxh3, MutableBytes out,
                                   SimdLevel level) {
  const auto* set = static_cast<const TableSet*>(tables);
  KV_TRY(check_arguments(shape, set, payload, out));
  const Kernels& kernels = kernels_of(level);
  std::vector<DirectoryEntry> directory(shape.substreams());
  const std::size_t directory_bytes = directory.size() * sizeof(DirectoryEntry);
  std::uint64_t at = sizeof(FrameHeader) + directory_bytes;
  bool any_static = false;
  for (std::uint32_t i = 0; i < directory.size(); ++i) {
    directory[i] = encode_substream(kernels, shape, set, i, payload, out.subspan(at));
    at += directory[i].encoded_bytes;
    any_static |= directory[i].kind == SubstreamKind::static_coded;
  }

  FrameHeader header{};
  header.magic = frame_magic;
  header.version = frame_version;
  header.codec = static_cast<std::uint8_t>(any_static ? CodecId::static_tables : CodecId::raw);
  header.raw_bytes = payload.size();
  header.frame_bytes = at;
  header.substreams = shape.substreams();
  header.tables_hash = any_static ? set->content_hash() : 0;
  header.payload_xxh3 = payload_xxh3;
  header.directory_xxh3 = xxh3(std::as_bytes(std::span(directory)));
  header.header_xxh3 = header_checksum(header);
  std::memcpy(out.data(), &header, sizeof header);
  if (directory_bytes != 0) {
    std::memcpy(out.data() + sizeof header, directory.data(), directory_bytes);
  }
  return at;
}

}  // namespace kvstrata::codec
