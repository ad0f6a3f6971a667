#include "codec/linear/cell_coder.h"
#include "codec/linear/linear_pass.h"
#include "kvstrata/check.h"

namespace kvstrata::codec {

namespace {

constexpr std::size_t length_bytes = 4;

Error corrupt(std::size_t layer, const char* what) {
  return {ErrorKind::corrupt, "linear, layer " + std::to_string(layer) + ": " + what};
}

}  // namespace

ByteVector encode_linear(const LinearModel& model, const PlacedPayload& payload) {
  KV_CHECK(payload.bytes.size() == model.shape.raw_bytes(), "a payload of another shape");
  LinearPass pass(model, model.shape.tokens, payload.first_position);
  ByteVector out;
  for (std::uint32_t l = 0; l < model.shape.layers; ++l) {
    const LayerPlaces places(model.shape, l);
    CellEncoder encoder(model.shape.dtype, model.tables);
    pass.layer([&](const LayerOrder::Channel& channel, std::span<const Guess> guesses,
                   std::span<std::uint32_t> patterns) {
      places.load(payload.bytes, channel, patterns);
      for (std::size_t t = 0; t < guesses.size(); ++t) {
        encoder.put(patterns[t], guesses[t].mu, guesses[t].sigma_class);
      }
    });
    const ByteVector chain = encoder.finish();
    const auto length = static_cast<std::uint32_t>(chain.size());
    for (int shift = 0; shift < 32; shift += 8) {
      out.push_back(static_cast<std::byte>(length >> shift));
    }
    out.insert(out.end(), chain.begin(), chain.end());
  }
  return out;
}

Status decode_linear(const LinearModel& model, ByteView encoded, std::uint32_t first_position,
                     MutableBytes payload) {
  KV_CHECK(payload.size() == model.shape.raw_bytes(), "a payload of another shape");
  LinearPass pass(model, model.shape.tokens, first_position);
  for (std::uint32_t l = 0; l < model.shape.layers; ++l) {
    if (encoded.size() < length_bytes) return corrupt(l, "its length is missing");
    const std::uint32_t length = load_scalar(encoded.data(), length_bytes);
    encoded = encoded.subspan(length_bytes);
    if (encoded.size() < length) return corrupt(l, "it is cut");
    KV_ASSIGN(CellDecoder decoder,
              CellDecoder::open(model.shape.dtype, model.tables, encoded.first(length)));
    encoded = encoded.subspan(length);
    const LayerPlaces places(model.shape, l);
    pass.layer([&](const LayerOrder::Channel& channel, std::span<const Guess> guesses,
                   std::span<std::uint32_t> patterns) {
      for (std::size_t t = 0; t < guesses.size(); ++t) {
        patterns[t] = decoder.get(guesses[t].mu, guesses[t].sigma_class);
      }
      places.store(channel, patterns, payload);
    });
    if (!decoder.at_end()) return corrupt(l, "its chain does not end where it should");
  }
  if (!encoded.empty()) return corrupt(model.shape.layers, "bytes left over");
  return {};
}

}  // namespace kvstrata::codec
