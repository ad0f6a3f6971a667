#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "codec/frame_format.h"
#include "codec/geometry.h"
#include "codec/kernels.h"
#include "codec/linear/linear_codec.h"
#include "codec/parameters.h"
#include "codec/static_coder.h"
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

/// A frame whose header and directory have been checked against the shape and the parameters.
struct ParsedFrame {
  const TableSet* tables = nullptr;    ///< of a static frame
  const LinearModel* model = nullptr;  ///< of a linear frame
  std::uint32_t first_position = 0;
  std::vector<DirectoryEntry> directory;
  std::vector<std::uint64_t> offsets;  ///< of each sub-stream in the frame
};

const char* find_entry_fault(const DirectoryEntry& entry, const BlockShape& shape,
                             std::uint32_t index, CodecId codec) {
  if (entry.reserved != 0) return "reserved bytes of an entry";
  if (entry.table != 0 && entry.kind != SubstreamKind::static_coded) {
    return "a table where none is used";
  }
  switch (entry.kind) {
    case SubstreamKind::raw:
      return entry.encoded_bytes == shape.substream_bytes(index) ? nullptr : "raw length";
    case SubstreamKind::static_coded:
      if (codec != CodecId::static_tables) return "a static sub-stream in another codec's frame";
      if (entry.table != 0 && !shape.is_opaque()) return "a table for all channels";
      return entry.encoded_bytes < shape.substream_bytes(index) ? nullptr : "static length";
    case SubstreamKind::linear:
      return codec == CodecId::linear ? nullptr : "a linear sub-stream in another codec's frame";
  }
  return "unknown kind of sub-stream";
}

/// Of the first sub-stream of a layer and, where there is one, its second.
const char* find_layer_fault(std::span<const DirectoryEntry> layer, std::uint64_t decoded_bytes) {
  if (layer.front().kind != layer.back().kind) return "half a layer is linear";
  if (layer.front().kind != SubstreamKind::linear) return nullptr;
  if (layer.front().encoded_bytes >= decoded_bytes) return "linear length";
  return layer.size() == 1 || layer.back().encoded_bytes == 0 ? nullptr : "two chains in a layer";
}

Status check_directory(const BlockShape& shape, CodecId codec,
                       std::span<const DirectoryEntry> directory) {
  for (std::uint32_t i = 0; i < directory.size(); ++i) {
    const char* const fault = find_entry_fault(directory[i], shape, i, codec);
    if (fault != nullptr) return corrupt(fault);
  }
  for (std::uint32_t i = 0; codec == CodecId::linear && i < directory.size(); i += shape.sides()) {
    const char* const fault =
        find_layer_fault(directory.subspan(i, shape.sides()), shape.layer_bytes());
    if (fault != nullptr) return corrupt(fault);
  }
  if (all_raw(directory) != (codec == CodecId::raw))
    return corrupt("a frame of raw sub-streams alone");
  return {};
}

Status read_directory(const BlockShape& shape, CodecId codec, ByteView frame, ParsedFrame& parsed) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  const std::size_t bytes = header.substreams * sizeof(DirectoryEntry);
  const std::byte* const at = frame.data() + sizeof(FrameHeader);
  if (xxh3({at, bytes}) != header.directory_xxh3) return corrupt("directory checksum");
  parsed.directory.resize(header.substreams);
  if (bytes != 0) std::memcpy(parsed.directory.data(), at, bytes);
  KV_TRY(check_directory(shape, codec, parsed.directory));
  std::uint64_t offset = sizeof(FrameHeader) + bytes;
  for (const DirectoryEntry& entry : parsed.directory) {
    parsed.offsets.push_back(offset);
    offset += entry.encoded_bytes;
  }
  if (offset != frame.size()) return corrupt("sub-streams do not add up to the frame");
  return {};
}

Result<ParsedFrame> parse_frame(const BlockShape& shape, const CodecParameters* parameters,
                                ByteView frame) {
  KV_TRY(check_shape(shape));
  KV_ASSIGN(const FrameInfo info, inspect_frame(frame));
  if (info.frame_bytes != frame.size()) return corrupt("its length is not the one it states");
  if (info.raw_bytes != shape.raw_bytes() || info.substreams != shape.substreams()) {
    return corrupt("it belongs to another shape");
  }
  if (info.codec == CodecId::predictor) {
    return Error(ErrorKind::unsupported,
                 "codec " + std::string(to_string(info.codec)) + " is not decoded here");
  }
  ParsedFrame parsed;
  if (info.codec != CodecId::raw) {
    if (parameters == nullptr) {
      return invalid("a " + std::string(to_string(info.codec)) + " frame needs its parameters");
    }
    if (parameters->codec() != info.codec || parameters->content_hash() != info.parameters_hash) {
      return invalid("parameters of another frame");
    }
    if (!fit_shape(parameters, shape)) return invalid("parameters of another shape");
    parsed.tables = tables_in(parameters);
    parsed.model = linear_model_in(parameters);
    parsed.first_position = info.first_position;
  }
  KV_TRY(read_directory(shape, info.codec, frame, parsed));
  return parsed;
}

ByteView encoded_part(const ParsedFrame& parsed, ByteView frame, std::uint32_t index) {
  return frame.subspan(parsed.offsets[index], parsed.directory[index].encoded_bytes);
}

Status check_sum(const ParsedFrame& parsed, const Placement& place, std::uint32_t index,
                 MutableBytes payload) {
  if (hash_substream(place, payload.data()) == parsed.directory[index].decoded_xxh3) return {};
  return corrupt("checksum of sub-stream " + std::to_string(index));
}

/// A raw or a static one.
Status decode_entry(const Kernels& kernels, const BlockShape& shape, const ParsedFrame& parsed,
                    ByteView frame, std::uint32_t index, MutableBytes payload) {
  const DirectoryEntry& entry = parsed.directory[index];
  const Placement place = placement_of(shape, index);
  const ByteView encoded = encoded_part(parsed, frame, index);
  if (entry.kind == SubstreamKind::raw) {
    unpack_substream(place, encoded.data(), payload.data());
  } else {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(payload.data());
    KV_TRY(decode_static(kernels, *parsed.tables, index, entry.table, place, encoded, bytes));
  }
  return check_sum(parsed, place, index, payload);
}

/// The first `layers` of a linear frame: each is needed for those above.
Status decode_layers(const BlockShape& shape, const ParsedFrame& parsed, ByteView frame,
                     std::uint32_t layers, MutableBytes payload, SimdLevel level) {
  LinearDecoder decoder(*parsed.model, shape, parsed.first_position, level);
  for (std::uint32_t l = 0; l < layers; ++l) {
    const std::uint32_t first = l * shape.sides();
    const bool is_linear = parsed.directory[first].kind == SubstreamKind::linear;
    if (is_linear) KV_TRY(decoder.layer(encoded_part(parsed, frame, first), payload));
    for (std::uint32_t i = first; i < first + shape.sides(); ++i) {
      KV_TRY(is_linear ? check_sum(parsed, placement_of(shape, i), i, payload)
                       : decode_entry(kernels_of(level), shape, parsed, frame, i, payload));
    }
    if (!is_linear) decoder.known_layer(payload);
  }
  return {};
}

const char* find_header_fault(const FrameHeader& header) {
  if (header.magic != frame_magic) return "no magic";
  if (header_checksum(header) != header.header_xxh3) {
    return "header checksum";
  }
  if (header.version != frame_version) return nullptr;  // told apart by the caller
  if (header.reserved_0 != 0) return "reserved bytes of the header";
  if (header.codec > static_cast<std::uint8_t>(CodecId::predictor)) return "unknown codec";
  if (header.raw_bytes > block_bytes_max) return "raw length";
  if (header.substreams > substreams_max) return "number of sub-streams";
  const std::uint64_t least = sizeof(FrameHeader) + header.substreams * sizeof(DirectoryEntry);
  if (header.frame_bytes < least || header.frame_bytes > least + header.raw_bytes) {
    return "frame length";
  }
  const auto codec = static_cast<CodecId>(header.codec);
  if (codec == CodecId::raw && header.parameters_hash != 0) return "a raw frame with parameters";
  if (codec != CodecId::linear && header.first_position != 0) {
    return "a position in a frame that is not linear";
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
                   .first_position = header.first_position,
                   .parameters_hash = header.parameters_hash,
                   .payload_xxh3 = header.payload_xxh3};
}

Status decode_frame_part(const BlockShape& shape, const CodecParameters* parameters, ByteView frame,
                         MutableBytes payload, FramePart part, SimdLevel level) {
  if (payload.size() != shape.raw_bytes()) return invalid("payload is not of the shape's size");
  if (part.number >= part.of) return invalid("no such part");
  KV_ASSIGN(const ParsedFrame parsed, parse_frame(shape, parameters, frame));
  if (parsed.model != nullptr) {
    if (part.number != 0) return {};
    return decode_layers(shape, parsed, frame, shape.layers, payload, level);
  }
  const Kernels& kernels = kernels_of(level);
  const auto begin_of = [&](std::uint64_t number) {
    return static_cast<std::uint32_t>(shape.substreams() * number / part.of);
  };
  for (std::uint32_t i = begin_of(part.number); i < begin_of(part.number + std::uint64_t{1}); ++i) {
    KV_TRY(decode_entry(kernels, shape, parsed, frame, i, payload));
  }
  return {};
}

Status decode_frame(const BlockShape& shape, const CodecParameters* parameters, ByteView frame,
                    MutableBytes payload, SimdLevel level) {
  return decode_frame_part(shape, parameters, frame, payload, {}, level);
}

Status decode_substream(const BlockShape& shape, const CodecParameters* parameters, ByteView frame,
                        std::uint32_t index, MutableBytes payload, SimdLevel level) {
  if (payload.size() != shape.raw_bytes()) return invalid("payload is not of the shape's size");
  if (index >= shape.substreams()) return invalid("no such sub-stream");
  KV_ASSIGN(const ParsedFrame parsed, parse_frame(shape, parameters, frame));
  if (parsed.model != nullptr) {
    return decode_layers(shape, parsed, frame, index / shape.sides() + 1, payload, level);
  }
  return decode_entry(kernels_of(level), shape, parsed, frame, index, payload);
}

}  // namespace kvstrata::codec
