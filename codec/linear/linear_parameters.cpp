#include "codec/linear/linear_parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "codec/geometry.h"
#include "codec/linear/linear_format.h"
#include "kvstrata/checksum.h"

namespace kvstrata::codec {

namespace {

constexpr std::uint32_t layers_max = 1024;
/// Steps of a token's scale stay in an int32 whatever these are times.
constexpr std::int32_t scale_number_max = 1 << 20;

Error corrupt(const char* what) {
  return {ErrorKind::corrupt, std::string("linear model: ") + what};
}

/// Coefficients of channel `c` for the errors of channels of earlier panels, and of its own.
constexpr std::size_t before_panel(std::size_t channel) {
  return channel / panel_channels * panel_channels;
}
constexpr std::size_t inside_panel(std::size_t channel) {
  return channel % panel_channels;
}

class Writer {
 public:
  template <typename T>
  void put(const T* values, std::size_t count) {
    const auto bytes = std::as_bytes(std::span(values, count));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  ByteVector take() { return std::move(bytes_); }

 private:
  ByteVector bytes_;
};

/// Memory is taken for what is there, not for what a header says is.
class Reader {
 public:
  explicit Reader(ByteView bytes) : bytes_(bytes) {}

  template <typename T>
  bool get(T* values, std::size_t count) {
    if (bytes_.size() / sizeof(T) < count) return false;
    if (count != 0) std::memcpy(values, bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
    return true;
  }
  template <typename T>
  bool get(std::vector<T>& values, std::size_t count) {
    if (bytes_.size() / sizeof(T) < count) return false;
    values.resize(count);
    return get(values.data(), count);
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  ByteView bytes_;
};

void write_layer(const LinearLayer& layer, Writer& out) {
  const LinearLayerHeader header{layer.below, layer.scale_slope_256, layer.scale_offset_256};
  out.put(&header, 1);
  for (const auto* numbers :
       {&layer.mean, &layer.input_scale, &layer.bias, &layer.map_scale, &layer.joint_scale}) {
    out.put(numbers->data(), numbers->size());
  }
  const std::size_t channels = layer.mean.size();
  out.put(layer.sigma_class.data(), channels);
  out.put(layer.map.data(), layer.map.size());
  for (std::size_t c = 0; c < channels; ++c) {
    out.put(layer.joint.data() + c * channels, before_panel(c));
  }
  for (std::size_t c = 0; c < channels; ++c) {
    out.put(layer.in_panel.data() + c * panel_channels, inside_panel(c));
  }
}

/// False if bytes are missing.
bool read_layer(Reader& in, std::size_t channels, LinearLayer& layer) {
  LinearLayerHeader header;
  if (!in.get(&header, 1) || header.below > layers_below_max) return false;
  layer.below = header.below;
  layer.scale_slope_256 = header.scale_slope_256;
  layer.scale_offset_256 = header.scale_offset_256;
  for (auto* numbers :
       {&layer.mean, &layer.input_scale, &layer.bias, &layer.map_scale, &layer.joint_scale}) {
    if (!in.get(*numbers, channels)) return false;
  }
  if (!in.get(layer.sigma_class, channels)) return false;
  if (!in.get(layer.map, channels * layer.below * channels)) return false;
  std::size_t joint = 0;
  for (std::size_t c = 0; c < channels; ++c) joint += before_panel(c);
  if (in.left() < joint) return false;
  layer.joint.assign(channels * channels, 0);
  for (std::size_t c = 0; c < channels; ++c) {
    if (!in.get(layer.joint.data() + c * channels, before_panel(c))) return false;
  }
  layer.in_panel.assign(channels * panel_channels, 0);
  for (std::size_t c = 0; c < channels; ++c) {
    if (!in.get(layer.in_panel.data() + c * panel_channels, inside_panel(c))) return false;
  }
  return true;
}

const char* find_fault(const LinearLayer& layer, std::size_t number, const LayerOrder& order) {
  if (layer.below > number) return "a layer below the first";
  for (const auto* numbers : {&layer.mean, &layer.input_scale, &layer.bias, &layer.map_scale,
                              &layer.joint_scale, &layer.in_panel}) {
    if (!std::ranges::all_of(*numbers, [](float value) { return std::isfinite(value); })) {
      return "a number that is not finite";
    }
  }
  for (const auto* coefficients : {&layer.map, &layer.joint}) {
    if (std::ranges::find(*coefficients, std::int8_t{-128}) != coefficients->end()) {
      return "a coefficient of -128";
    }
  }
  for (const std::int32_t value : {layer.scale_slope_256, layer.scale_offset_256}) {
    if (value < -scale_number_max || value > scale_number_max) return "a scale's number";
  }
  for (std::size_t c = 0; c < order.size(); ++c) {
    const int sigma = layer.sigma_class[c];
    if (sigma < -sigma_class_max || sigma > sigma_class_max) return "a class of sigma";
    if (order.channels()[c].first_of_pair && sigma != layer.sigma_class[c + 1]) {
      return "a pair with two sigmas";
    }
  }
  return nullptr;
}

const char* find_fault(const LinearHeader& header) {
  if (header.magic != linear_magic) return "no magic";
  if (header.reserved_0 != 0 || header.reserved_1 != 0) return "reserved bytes";
  if (!has_linear(static_cast<DType>(header.dtype))) return "dtype";
  if (header.layers < 1 || header.layers > layers_max) return "number of layers";
  const std::uint64_t channels =
      std::uint64_t{header.kv_heads} * (std::uint64_t{header.head_dim_k} + header.head_dim_v);
  if (header.kv_heads < 1 || header.kv_heads > linear_channels_max || header.head_dim_k < 1 ||
      header.head_dim_k > linear_channels_max || header.head_dim_v > linear_channels_max ||
      channels > linear_channels_max) {
    return "number of channels";
  }
  if (header.head_dim_k % 2 != 0 || header.rotary_dim % 2 != 0 ||
      header.rotary_dim > header.head_dim_k) {
    return "rotary dimension";
  }
  return nullptr;
}

BlockShape shape_of(const LinearHeader& header) {
  BlockShape shape;
  shape.dtype = static_cast<DType>(header.dtype);
  shape.layers = header.layers;
  shape.kv_heads = header.kv_heads;
  shape.head_dim_k = header.head_dim_k;
  shape.head_dim_v = header.head_dim_v;
  return shape;
}

}  // namespace

LinearParameters::LinearParameters(LinearModel model)
    : model_(std::move(model)), content_hash_(xxh3(serialize())) {}

Result<std::shared_ptr<const LinearParameters>> LinearParameters::fit(
    const BlockShape& shape, std::span<const PlacedPayload> payloads,
    const LinearFitOptions& options) {
  KV_ASSIGN(LinearModel model, fit_linear(shape, payloads, options));
  // What is coded with is what will be read back, so nothing may be in it that a reader refuses.
  const auto stored = parse(LinearParameters(std::move(model)).serialize());
  if (stored) return *stored;
  return Error(ErrorKind::invalid_argument,
               "fit linear: these blocks give no model: " + stored.error().message());
}

ByteVector LinearParameters::serialize() const {
  Writer out;
  LinearHeader header{};
  header.magic = linear_magic;
  header.version = linear_version;
  header.dtype = static_cast<std::uint8_t>(model_.shape.dtype);
  header.layers = model_.shape.layers;
  header.kv_heads = model_.shape.kv_heads;
  header.head_dim_k = model_.shape.head_dim_k;
  header.head_dim_v = model_.shape.head_dim_v;
  header.rotary_dim = model_.rotary_dim;
  out.put(&header, 1);
  const ByteVector tables = model_.tables.serialize();
  out.put(tables.data(), tables.size());
  out.put(model_.rope.steps().data(), model_.rope.steps().size());
  for (const LinearLayer& layer : model_.layers) write_layer(layer, out);
  ByteVector bytes = out.take();
  header.body_xxh3 = xxh3(ByteView(bytes).subspan(sizeof header));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<std::shared_ptr<const LinearParameters>> LinearParameters::parse(ByteView bytes) {
  LinearHeader header;
  if (bytes.size() < sizeof header) return corrupt("shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic == linear_magic && header.version != linear_version) {
    return Error(ErrorKind::unsupported,
                 "linear model: version " + std::to_string(header.version) + " is not known");
  }
  if (const char* fault = find_fault(header)) return corrupt(fault);
  if (xxh3(bytes.subspan(sizeof header)) != header.body_xxh3) return corrupt("checksum");
  LinearModel model;
  model.shape = shape_of(header);
  model.rotary_dim = header.rotary_dim;
  if (bytes.size() < sizeof header + CellTables::serialized_bytes) return corrupt("length");
  KV_ASSIGN(model.tables,
            CellTables::parse(bytes.subspan(sizeof header, CellTables::serialized_bytes)));
  Reader in(bytes.subspan(sizeof header + CellTables::serialized_bytes));
  std::vector<std::uint32_t> steps;
  if (!in.get(steps, header.rotary_dim / 2)) return corrupt("length");
  model.rope = Rope::of(std::move(steps));
  const LayerOrder order(model.shape, model.rotary_dim);
  for (std::uint32_t l = 0; l < header.layers; ++l) {
    LinearLayer layer;
    if (!read_layer(in, order.size(), layer)) return corrupt("length");
    if (const char* fault = find_fault(layer, l, order)) return corrupt(fault);
    model.layers.push_back(std::move(layer));
  }
  if (in.left() != 0) return corrupt("bytes left over");
  return std::make_shared<const LinearParameters>(std::move(model));
}

bool serves(const LinearModel& model, const BlockShape& shape) {
  const BlockShape& own = model.shape;
  return !shape.is_opaque() && shape.dtype == own.dtype && shape.layers == own.layers &&
         shape.kv_heads == own.kv_heads && shape.head_dim_k == own.head_dim_k &&
         shape.head_dim_v == own.head_dim_v;
}

}  // namespace kvstrata::codec
