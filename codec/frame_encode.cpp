#include <algorithm>
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

Error invalid(const std::string& what) {
  return {ErrorKind::invalid_argument, "encode frame: " + what};
}

Status check_arguments(const BlockShape& shape, const CodecParameters* parameters, ByteView payload,
                       MutableBytes out) {
  KV_TRY(check_shape(shape));
  if (payload.size() != shape.raw_bytes()) {
    return invalid("payload of " + std::to_string(payload.size()) + " bytes, the shape has " +
                   std::to_string(shape.raw_bytes()));
  }
  if (out.size() < frame_bytes_max(shape)) return invalid("output below frame_bytes_max()");
  if (!fit_shape(parameters, shape)) return invalid("parameters of another shape");
  return {};
}

/// Sub-streams as they are put behind each other, and what the directory says of them.
class FrameBody {
 public:
  FrameBody(const BlockShape& shape, ByteView payload, MutableBytes out)
      : shape_(shape), payload_(payload), out_(out) {}

  void add_raw(std::uint32_t index) {
    const Placement place = placement_of(shape_, index);
    pack_substream(place, payload_.data(), room().data());
    add({.encoded_bytes = static_cast<std::uint32_t>(place.bytes()), .kind = SubstreamKind::raw},
        place);
  }
  /// As static, if that gains.
  void add_static(std::uint32_t index, const TableSet& tables, const Kernels& kernels) {
    const Placement place = placement_of(shape_, index);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(payload_.data());
    const StaticEncoded encoded = encode_static(kernels, tables, index, place, bytes, room());
    if (encoded.bytes == 0) {
      add_raw(index);
      return;
    }
    add({.encoded_bytes = static_cast<std::uint32_t>(encoded.bytes),
         .kind = SubstreamKind::static_coded,
         .table = encoded.table},
        place);
  }
  /// All sub-streams of the next layer, as one chain if that gains.
  void add_layer(LinearEncoder& encoder) {
    const std::uint32_t sides = shape_.sides();
    const auto first = static_cast<std::uint32_t>(directory_.size());
    const std::uint64_t decoded = shape_.layer_bytes();
    const ByteVector chain = encoder.layer(payload_);
    const bool gains = chain.size() <= decoded - decoded / 64;
    if (gains) std::ranges::copy(chain, room().begin());
    for (std::uint32_t i = first; i < first + sides; ++i) {
      if (!gains) {
        add_raw(i);
        continue;
      }
      const std::size_t bytes = i == first ? chain.size() : 0;
      add({.encoded_bytes = static_cast<std::uint32_t>(bytes), .kind = SubstreamKind::linear},
          placement_of(shape_, i));
    }
  }

  std::span<const DirectoryEntry> directory() const { return directory_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  MutableBytes room() { return out_.subspan(bytes_); }
  void add(DirectoryEntry entry, const Placement& place) {
    entry.decoded_xxh3 = hash_substream(place, payload_.data());
    directory_.push_back(entry);
    bytes_ += entry.encoded_bytes;
  }

  const BlockShape& shape_;
  ByteView payload_;
  MutableBytes out_;
  std::uint64_t bytes_ = 0;
  std::vector<DirectoryEntry> directory_;
};

}  // namespace

std::uint64_t frame_bytes_max(const BlockShape& shape) {
  return sizeof(FrameHeader) + shape.substreams() * sizeof(DirectoryEntry) + shape.raw_bytes();
}

Result<std::uint64_t> encode_frame(const BlockShape& shape, const CodecParameters* parameters,
                                   ByteView payload, std::uint64_t payload_xxh3, MutableBytes out,
                                   SimdLevel level, std::uint32_t first_position) {
  KV_TRY(check_arguments(shape, parameters, payload, out));
  const std::uint64_t head_bytes =
      sizeof(FrameHeader) + shape.substreams() * sizeof(DirectoryEntry);
  FrameBody body(shape, payload, out.subspan(head_bytes));
  if (const LinearModel* const model = linear_model_in(parameters)) {
    LinearEncoder encoder(*model, shape, first_position, level);
    for (std::uint32_t l = 0; l < shape.layers; ++l) body.add_layer(encoder);
  } else if (const TableSet* const tables = tables_in(parameters)) {
    const Kernels& kernels = kernels_of(level);
    for (std::uint32_t i = 0; i < shape.substreams(); ++i) body.add_static(i, *tables, kernels);
  } else {
    for (std::uint32_t i = 0; i < shape.substreams(); ++i) body.add_raw(i);
  }

  const CodecId codec = all_raw(body.directory()) ? CodecId::raw : parameters->codec();
  FrameHeader header{};
  header.magic = frame_magic;
  header.version = frame_version;
  header.codec = static_cast<std::uint8_t>(codec);
  header.raw_bytes = payload.size();
  header.frame_bytes = head_bytes + body.bytes();
  header.substreams = shape.substreams();
  header.first_position = codec == CodecId::linear ? first_position : 0;
  header.parameters_hash = codec == CodecId::raw ? 0 : parameters->content_hash();
  header.payload_xxh3 = payload_xxh3;
  const auto directory = std::as_bytes(body.directory());
  header.directory_xxh3 = xxh3(directory);
  header.header_xxh3 = header_checksum(header);
  std::memcpy(out.data(), &header, sizeof header);
  std::ranges::copy(directory, out.begin() + sizeof header);
  return header.frame_bytes;
}

}  // namespace kvstrata::codec
