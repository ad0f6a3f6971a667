#include "codec/linear/linear_codec.h"

#include "codec/linear/cell_coder.h"
#include "kvstrata/check.h"

namespace kvstrata::codec {

namespace {

Error corrupt(std::size_t layer, const char* what) {
  return {ErrorKind::corrupt, "linear, layer " + std::to_string(layer) + ": " + what};
}

}  // namespace

LinearEncoder::LinearEncoder(const LinearModel& model, const BlockShape& shape,
                             std::uint32_t first_position, SimdLevel level)
    : model_(model),
      shape_(shape),
      level_(level),
      pass_(model, shape.tokens, first_position, level) {}

ByteVector LinearEncoder::layer(ByteView payload) {
  const LayerPlaces places(shape_, layer_++);
  CellEncoder encoder(shape_.dtype, model_.tables, pass_.channels() * shape_.tokens, level_);
  pass_.layer([&](const LayerOrder::Channel& channel, const Guesses& guesses,
                  std::span<std::uint32_t> patterns) {
    places.load(payload, channel, patterns);
    encoder.put(patterns, guesses);
    return true;
  });
  return encoder.finish();
}

LinearDecoder::LinearDecoder(const LinearModel& model, const BlockShape& shape,
                             std::uint32_t first_position, SimdLevel level)
    : model_(model),
      shape_(shape),
      level_(level),
      pass_(model, shape.tokens, first_position, level) {}

Status LinearDecoder::layer(ByteView chain, MutableBytes payload) {
  KV_ASSIGN(CellDecoder decoder, CellDecoder::open(shape_.dtype, model_.tables, chain,
                                                   pass_.channels() * shape_.tokens, level_));
  const LayerPlaces places(shape_, layer_);
  const bool whole = pass_.layer([&](const LayerOrder::Channel& channel, const Guesses& guesses,
                                     std::span<std::uint32_t> patterns) {
    if (!decoder.get(guesses, patterns)) return false;
    places.store(channel, patterns, payload);
    return true;
  });
  if (!whole) return corrupt(layer_, "its chain ends too early, or names no scalar");
  if (!decoder.at_end()) return corrupt(layer_, "its chain does not end where it should");
  ++layer_;
  return {};
}

void LinearDecoder::known_layer(ByteView payload) {
  const LayerPlaces places(shape_, layer_++);
  pass_.layer(
      [&](const LayerOrder::Channel& channel, const Guesses&, std::span<std::uint32_t> patterns) {
        places.load(payload, channel, patterns);
        return true;
      });
}

}  // namespace kvstrata::codec
