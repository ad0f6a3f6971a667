// The codecs' one small interface: a payload becomes a frame and comes back bit-exact.
// All functions are pure, synchronous and safe to call from any thread. Format:
// doc/frame-format.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codec/shape.h"
#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::codec {

/// Which coder wrote a frame. Numbers are part of the format.
enum class CodecId : std::uint8_t { raw = 0, static_tables = 1, linear = 2, predictor = 3 };

std::string_view to_string(CodecId id);  ///< "raw", "static", "linear", "predictor"

/// Which machine code runs. All levels read and write the same bytes.
enum class SimdLevel : std::uint8_t { scalar, avx2, avx512 };

/// The best level this CPU has and this build knows; KVSTRATA_SIMD=scalar|avx2|avx512 lowers it.
SimdLevel best_simd_level();

/// What a codec learned from stored blocks and its frames can't be decoded without: static tables
/// or a linear model (codec/linear/linear_parameters.h). Immutable, shared freely between threads.
class CodecParameters {
 public:
  /// Reads what serialize() of any codec's parameters wrote; `corrupt` for anything else.
  static Result<std::shared_ptr<const CodecParameters>> parse(ByteView bytes);

  virtual ~CodecParameters() = default;
  virtual CodecId codec() const = 0;  ///< of the frames that need them
  virtual ByteVector serialize() const = 0;
  virtual std::uint64_t content_hash() const = 0;  ///< XXH3-64 of serialize(); frames name it
};

/// The static codec's tables: per layer, side and channel group, the common exponents and their
/// frequencies.
class StaticTables : public CodecParameters {
 public:
  /// Fits tables on at least one payload of `shape`. Deterministic.
  static Result<std::shared_ptr<const StaticTables>> fit(const BlockShape& shape,
                                                         std::span<const ByteView> payloads);
  /// Reads what serialize() wrote; `corrupt` for anything else.
  static Result<std::shared_ptr<const StaticTables>> parse(ByteView bytes);

  CodecId codec() const override { return CodecId::static_tables; }
};

/// What a frame's header says. Read from untrusted bytes and bounded.
struct FrameInfo {
  CodecId codec = CodecId::raw;
  std::uint8_t version = 1;
  std::uint64_t raw_bytes = 0;
  std::uint64_t frame_bytes = 0;
  std::uint32_t substreams = 0;
  /// Of a linear frame: where in its sequence the payload's first token stands.
  std::uint32_t first_position = 0;
  std::uint64_t parameters_hash = 0;  ///< content_hash() of the parameters needed; 0: none
  std::uint64_t payload_xxh3 = 0;     ///< XXH3-64 over the whole payload in memory order
};

/// No frame of this shape is longer, whatever the codec and the data.
std::uint64_t frame_bytes_max(const BlockShape& shape);

/// Encodes `payload` (exactly shape.raw_bytes()) into `out` (at least frame_bytes_max()) with the
/// codec of `parameters`; nullptr: raw. Sub-streams (of the linear codec: layers) that would not
/// gain 1/64 are kept raw each, and the whole frame is `raw` if nothing gains. `payload_xxh3` is
/// the caller's hash of the payload and is stored as it is. `first_position` is that of the first
/// token in its sequence: the linear codec gains less where it is wrong. Returns the frame's
/// length.
Result<std::uint64_t> encode_frame(const BlockShape& shape, const CodecParameters* parameters,
                                   ByteView payload, std::uint64_t payload_xxh3, MutableBytes out,
                                   SimdLevel level = best_simd_level(),
                                   std::uint32_t first_position = 0);

/// Checks the header alone: magic, version, bounds, header checksum. `corrupt` names what is wrong.
Result<FrameInfo> inspect_frame(ByteView frame);

/// Decodes a whole frame into `payload` (exactly shape.raw_bytes()). Every sub-stream's XXH3-64 is
/// compared before this returns; on any error the payload's content is unspecified.
/// `parameters` must match FrameInfo::parameters_hash if that is not 0.
Status decode_frame(const BlockShape& shape, const CodecParameters* parameters, ByteView frame,
                    MutableBytes payload, SimdLevel level = best_simd_level());

/// One of `of` runs of a frame's sub-streams, as even as they come.
struct FramePart {
  std::uint32_t number = 0, of = 1;
};

/// Decodes and checks a part of a frame. All parts together are decode_frame(), and several threads
/// may do them at once. The layers of a linear frame need each other: its part 0 is all of it.
Status decode_frame_part(const BlockShape& shape, const CodecParameters* parameters, ByteView frame,
                         MutableBytes payload, FramePart part, SimdLevel level = best_simd_level());

/// Decodes and checks one sub-stream (index = layer * sides + side) in its place in `payload`; of a
/// linear frame the layers below it are decoded too.
Status decode_substream(const BlockShape& shape, const CodecParameters* parameters, ByteView frame,
                        std::uint32_t index, MutableBytes payload,
                        SimdLevel level = best_simd_level());

}  // namespace kvstrata::codec
