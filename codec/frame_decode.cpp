
#include <algorithm>
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

Error corrupt(const std::string& what) {
  return {ErrorKind::corrupt, "frame: " + what};
}
Error invalid(const std::string& what) {
  return {ErrorKind::invalid_argument, "decode frame: " + what};
}

/// A frame whose header and directory have been checked against the shape and the tables.
struct ParsedFrame {
  const TableSet* tables = nullptr;  ///< nullptr in a raw frame
  std::vector<DirectoryEntry> directory;
  std::vector<std::uint64_t> offsets;  ///< of each sub-stream in the frame
};

const char* find_entry_fault(const DirectoryEntry& entry, const BlockShape& shape,
                             std::uint32_t index, bool static_frame) {
  if (entry.reserved != 0) return "reserved bytes of an entry";
  switch (entry.kind) {
    case SubstreamKind::raw:
      if (entry.table != 0) return "a raw sub-stream with a table";
      return entry.encoded_bytes == shape.substream_bytes(index) ? nullptr : "raw length";
    case SubstreamKind::static_coded:
      if (!static_frame) return "a static sub-stream in a raw frame";
      if (entry.table != 0 && !shape.is_opaque()) return "a table for all channels";
      return entry.encoded_bytes < shape.substream_bytes(index) ? nullptr : "static length";
  }
  return "unknown kind of sub-stream";
}

Status read_directory(const BlockShape& shape, const FrameInfo& info, ByteView frame,
                      std::uint64_t directory_xxh3, ParsedFrame& parsed) {
  const std::size_t bytes = info.substreams * sizeof(DirectoryEntry);
  const std::byte* const at = frame.data() + sizeof(FrameHeader);
  if (xxh3({at, bytes}) != directory_xxh3) return corrupt("directory checksum");
  parsed.directory.resize(info.substreams);
  if (bytes != 0) std::memcpy(parsed.directory.data(), at, bytes);
  std::uint64_t offset = sizeof(FrameHeader) + bytes;
  for (std::uint32_t i = 0; i < info.substreams; ++i) {
    const DirectoryEntry& entry = parsed.directory[i];
    const char* fault = find_entry_fault(entry, shape, i, info.codec == CodecId::static_tables);
    if (fault != nullptr) return corrupt(fault);
    parsed.offsets.push_back(offset);
    offset += entry.encoded_bytes;
  }
  if (offset != frame.size()) return corrupt("sub-streams do not add up to the frame");
  const bool any_static = std::ranges::any_of(parsed.directory, [](const DirectoryEntry& entry) {
    return entry.kind == SubstreamKind::static_coded;
  });
  if (info.codec == CodecId::static_tables && !any_static) {
    return corrupt("a static frame without a static sub-stream");
  }
  return {};
}

Result<ParsedFrame> parse_frame(const BlockShape& shape, const StaticTables* tables,
                                ByteView frame) {
  KV_TRY(check_shape(shape));
  KV_ASSIGN(const FrameInfo info, inspect_frame(frame));
  if (info.frame_bytes != frame.size()) return corrupt("its length is not the one it states");
  if (info.raw_bytes != shape.raw_bytes() || info.substreams != shape.substreams()) {
    return corrupt("it belongs to another shape");
  }
  ParsedFrame parsed;
  if (info.codec == CodecId::static_tables) {
    parsed.tables = static_cast<const TableSet*>(tables);
    if (tables == nullptr) return invalid("a static frame needs its tables");
    if (tables->content_hash() != info.tables_hash) return invalid("tables of another frame");
    if (parsed.tables->dimensions() != TableSet::Dimensions::of(shape)) {
      return invalid("tables of another shape");
    }
  } else if (info.codec != CodecId::raw) {
    return Error(ErrorKind::unsupported,
                 "codec " + std::string(to_string(info.codec)) + " is not decoded here");
  }
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  KV_TRY(read_directory(shape, info, frame, header.directory_xxh3, parsed));
  return parsed;
}

Status decode_entry(const Kernels& kernels, const BlockShape& shape, const ParsedFrame& parsed,
                    ByteView frame, std::uint32_t index, MutableBytes payload) {
  const DirectoryEntry& entry = parsed.directory[index];
  const Placement place = placement_of(shape, index);
  const ByteView encoded = frame.subspan(parsed.offsets[index], entry.encoded_bytes);
  if (entry.kind == SubstreamKind::raw) {
    unpack_substream(place, encoded.data(), payload.data());
  } else {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(payload.data());
    KV_TRY(decode_static(kernels, *parsed.tables, index, entry.table, place, encoded, bytes));
  }
  if (hash_substream(place, payload.data()) == entry.decoded_xxh3) return {};
  return corrupt("checksum of sub-stream " + std::to_string(index));
}

const char* find_header_fault(const FrameHeader& header) {
  if (header.magic != frame_magic) return "no magic";
  if (header_checksum(header) != header.header_xxh3) {
    return "header checksum";
  }
  if (header.version != frame_version) return nullptr;  // told apart by the caller
  if (header.reserved_0 != 0 || header.reserved_1 != 0) return "reserved bytes of the header";
  if (header.codec > static_cast<std::uint8_t>(CodecId::predictor)) return "unknown codec";
  if (header.raw_bytes > block_bytes_max) return "raw length";
  if (header.substreams > substreams_max) return "number of sub-streams";
  const std::uint64_t least = sizeof(FrameHeader) + header.substreams * sizeof(DirectoryEntry);
  if (header.frame_bytes < least || header.frame_bytes > least + header.raw_bytes) {
    return "frame length";
  }
  if (header.codec == static_cast<std::uint8_t>(CodecId::raw) && header.tables_hash != 0) {
    return "a raw frame with tables";
  }
  return nullptr;
}

}  // namespace

Result<FrameInfo> inspect_frame(ByteView frame) {
  FrameHeader header;
  if (frame.size() < sizeof header) return corrupt("shorter than its header");
  std::memcpy(&header, frame.data(), sizeof header);
  if (const char* fault = find_header_fault(header)) return corrupt(fault);
  if (header.version != frame_version) {
    return Error(ErrorKind::unsupported,
                 "frame version " + std::to_string(header.version) + " is not known");
  }
  return FrameInfo{.codec = static_cast<CodecId>(header.codec),
                   .version = header.version,
                   .raw_bytes = header.raw_bytes,
                   .frame_bytes = header.frame_bytes,
                   .substreams = header.substreams,
                   .tables_hash = header.tables_hash,
                   .payload_xxh3 = header.payload_xxh3};
}

Status decode_frame(const BlockShape& shape, const StaticTables* tables, ByteView frame,
                    MutableBytes payload, SimdLevel level) {
  if (payload.size() != shape.raw_bytes()) return invalid("payload is not of the shape's size");
  KV_ASSIGN(const ParsedFrame parsed, parse_frame(shape, tables, frame));
  const Kernels& kernels = kernels_of(level);
  for (std::uint32_t i = 0; i < shape.substreams(); ++i) {
    KV_TRY(decode_entry(kernels, shape, parsed, frame, i, payload));
  }
  return {};
}

Status decode_substream(const BlockShape& shape, const StaticTables* tables, ByteView frame,
                        std::uint32_t index, MutableBytes payload, SimdLevel level) {
  if (payload.size() != shape.raw_bytes()) return invalid("payload is not of the shape's size");
  if (index >= shape.substreams()) return invalid("no such sub-stream");
  KV_ASSIGN(const ParsedFrame parsed, parse_frame(shape, tables, frame));
  return decode_entry(kernels_of(level), shape, parsed, frame, index, payload);
}

}  // namespace kvstrata::codec
