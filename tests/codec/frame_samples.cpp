// frame_samples FOLDER SEED: writes frames of many shapes for slow_decoder_test.py, which reads
// them by the pages of their format alone: NAME.json, NAME.payload, NAME.frame and NAME.parameters.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "codec/codec.h"
#include "codec/linear/linear_parameters.h"
#include "kvstrata/checksum.h"
#include "tests/codec/layered_kv.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;

namespace {

void write_file(const std::string& path, ByteView bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) {
    std::fprintf(stderr, "frame_samples: %s can't be written\n", path.c_str());
    std::exit(1);
  }
}

std::string json_of(const BlockShape& shape) {
  std::string json = "{\"dtype\": \"" + std::string(to_string(shape.dtype)) + "\"";
  const auto add = [&](const char* name, std::uint64_t value) {
    json += std::string(", \"") + name + "\": " + std::to_string(value);
  };
  add("opaque_bytes", shape.opaque_bytes);
  if (!shape.is_opaque()) {
    add("layers", shape.layers);
    add("kv_heads", shape.kv_heads);
    add("head_dim_k", shape.head_dim_k);
    add("head_dim_v", shape.head_dim_v);
    add("tokens", shape.tokens);
    add("page_tokens", shape.layout.page_tokens);
    json += ", \"layout\": \"" + shape.layout.k_axes + "\", \"layout_v\": \"" +
            shape.layout.v_axes + "\"";
  }
  return json + "}\n";
}

/// Parameters are fitted on other payloads, so that some keys have to escape.
class Samples {
 public:
  Samples(std::string folder, std::uint64_t seed) : folder_(std::move(folder)), seed_(seed) {}

  void add(const BlockShape& shape) {
    const ByteVector payload = test::synthetic_kv(shape, seed_, ++count_);
    write(shape, "raw", payload, nullptr);
    if (payload.empty()) return;
    const ByteVector other = test::synthetic_kv(shape, seed_, ++count_);
    const ByteView view(other);
    const auto tables = StaticTables::fit(shape, std::span(&view, 1)).value();
    write(shape, "static", payload, tables.get());
  }

  void add_linear(const BlockShape& shape, const LinearParameters& model, ByteView payload,
                  std::uint32_t first_position) {
    ++count_;
    write(shape, "linear", payload, &model, first_position);
  }

 private:
  void write(const BlockShape& shape, const char* kind, ByteView payload,
             const CodecParameters* parameters, std::uint32_t first_position = 0) const {
    ByteVector frame(frame_bytes_max(shape));
    frame.resize(encode_frame(shape, parameters, payload, xxh3(payload), frame, best_simd_level(),
                              first_position)
                     .value());
    const std::string path = folder_ + "/" + std::to_string(count_) + "-" + kind;
    const std::string json = json_of(shape);
    write_file(path + ".json", std::as_bytes(std::span(json)));
    write_file(path + ".payload", payload);
    write_file(path + ".frame", frame);
    if (parameters != nullptr) write_file(path + ".parameters", parameters->serialize());
  }

  std::string folder_;
  std::uint64_t seed_, count_ = 0;
};

/// Frames of one linear model, of blocks it was not fitted on.
class LinearSamples {
 public:
  using Change = void (*)(LinearModel&);

  LinearSamples(
      Samples& samples, const BlockShape& shape, std::uint64_t seed,
      Change change = [](LinearModel&) {})
      : samples_(samples), random_(seed), blocks_(random_, shape), model_(fit(change)) {}

  /// `odd`: one scalar in so many is anything, half of those no number.
  void add(std::uint32_t tokens, const Layout& layout, std::uint32_t first_position,
           std::uint64_t odd = 0) {
    const BlockShape shape = shape_of(tokens, layout);
    ByteVector payload = blocks_.source.block(shape, random_, first_position);
    const std::size_t size = bytes_per_scalar(shape.dtype);
    for (std::size_t at = 0; at < payload.size(); at += size) {
      if (odd == 0 || !random_.one_in(odd)) continue;
      std::uint64_t bits = random_.bits();
      if (random_.one_in(2)) bits |= size == 2 ? 0x7f80 : 0x7f;
      std::memcpy(payload.data() + at, &bits, size);
    }
    samples_.add_linear(shape, model_, payload, first_position);
  }

  /// With a layer that is noise and stays raw.
  void add_with_raw_layer(std::uint32_t tokens, const Layout& layout, std::uint32_t layer) {
    const BlockShape shape = shape_of(tokens, layout);
    ByteVector payload = blocks_.source.block(shape, random_, 77);
    test::for_each_scalar(
        shape, [&](std::uint32_t substream, std::uint32_t, std::uint32_t, std::uint64_t at) {
          if (substream / shape.sides() != layer) return;
          const std::uint64_t bits = random_.bits();
          std::memcpy(payload.data() + at, &bits, bytes_per_scalar(shape.dtype));
        });
    samples_.add_linear(shape, model_, payload, 77);
  }

 private:
  LinearModel fit(Change change) const {
    LinearModel model = blocks_.fit();
    change(model);
    return model;
  }
  BlockShape shape_of(std::uint32_t tokens, const Layout& layout) const {
    BlockShape shape = blocks_.shape;
    shape.tokens = tokens;
    shape.layout = layout;
    return shape;
  }

  Samples& samples_;
  test::Random random_;
  test::LayeredBlocks blocks_;
  LinearParameters model_;
};

/// Numbers that no fit gives, though a model may hold them, in some channels of the lowest layer
/// and in how scales of tokens begin.
void make_extreme(LinearModel& model) {
  LinearLayer& lowest = model.layers[0];
  for (const std::size_t c : {0U, 1U}) lowest.bias[c] = lowest.map_scale[c] = -0.0F;
  lowest.sigma_class[60] = lowest.sigma_class[62] = 480;  // of V, which begins at 60
  lowest.sigma_class[61] = lowest.sigma_class[63] = lowest.sigma_class[68] = -480;
  lowest.bias[64] = 3e38F;
  lowest.bias[65] = -3e38F;
  lowest.sigma_class[64] = lowest.sigma_class[65] = 30;  // so that mu is infinite
  lowest.bias[66] = 1e20F;
  lowest.bias[67] = -7e4F;
  lowest.bias[68] = 1e-40F;
  std::ranges::fill(model.layers[1].sigma_class, std::int16_t{480});  // no error, so the least step
  model.layers[2].scale_slope_256 = 256;
  model.layers[2].scale_offset_256 = 9999;
  model.layers[3].scale_slope_256 = 1 << 20;
  model.layers[3].scale_offset_256 = -(1 << 20);
}

BlockShape shape_of(DType dtype, std::uint32_t heads, std::uint32_t dim_k, std::uint32_t dim_v,
                    std::uint32_t tokens, const char* k_axes, const char* v_axes,
                    std::uint32_t page_tokens) {
  BlockShape shape = test::block_shape(dtype, 2, heads, dim_k, tokens, k_axes);
  shape.head_dim_v = dim_v;
  shape.layout.v_axes = v_axes;
  shape.layout.page_tokens = page_tokens;
  return shape;
}

void add_linear_samples(Samples& samples, std::uint64_t seed) {
  const Layout plain{.k_axes = "LSPHTC", .v_axes = "LSPHTC", .page_tokens = 0};
  const Layout paged{.k_axes = "LPHSCT", .v_axes = "LPHSTC", .page_tokens = 11};
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    LinearSamples linear(samples, test::layered_shape(dtype, "LSPHTC", 5), seed);  // two panels
    linear.add(1, plain, 5);
    linear.add(16, plain, 0);
    linear.add(33, paged, 4096);
    linear.add(33, plain, 0xffff'fff0, 200);  // positions begin again at 0
    linear.add_with_raw_layer(16, plain, 1);
  }
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    LinearSamples extreme(samples, test::layered_shape(dtype, "LSPHTC", 5), seed, make_extreme);
    extreme.add(33, plain, 0, 300);
  }
  BlockShape shape = shape_of(DType::bf16, 2, 10, 5, 32, "LSPHTC", "LSPHTC", 0);
  LinearSamples odd_count(samples, shape, seed);
  odd_count.add(17, plain, 100);
  shape = shape_of(DType::fp16, 3, 12, 0, 32, "LSPHTC", "LSPHTC", 0);
  LinearSamples k_alone(samples, shape, seed);
  k_alone.add(33, plain, 1);
  shape = shape_of(DType::fp8_e4m3, 5, 12, 12, 32, "LSPHTC", "LSPHTC", 0);
  LinearSamples many_lanes(samples, shape, seed);
  many_lanes.add(274, plain, 31);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: frame_samples FOLDER SEED\n", stderr);
    return 2;
  }
  const std::uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  Samples samples(argv[1], seed);
  for (const DType dtype :
       {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2, DType::int8, DType::fp32}) {
    samples.add(shape_of(dtype, 2, 16, 16, 64, "LSPHTC", "LSPHTC", 0));
    samples.add(shape_of(dtype, 1, 12, 20, 48, "LPHSCT", "LPHSTC", 16));
    samples.add(shape_of(dtype, 3, 9, 9, 33, "SPLTHC", "SPLTHC", 11));
    samples.add(BlockShape::opaque(dtype, 4099));
  }
  samples.add(shape_of(DType::bf16, 1, 40, 0, 40, "LSPHTC", "LSPHTC", 0));  // K alone
  samples.add(shape_of(DType::bf16, 1, 8, 8, 256, "LSPHTC", "LSPHTC", 0));  // whole steps
  BlockShape small = shape_of(DType::bf16, 1, 12, 0, 60, "LSPHTC", "LSPHTC", 0);
  small.layers = 1;
  samples.add(small);
  samples.add(BlockShape::opaque(DType::bf16, 0));
  samples.add(BlockShape::opaque(DType::bf16, (1 << 20) + 10'001));  // two pieces
  add_linear_samples(samples, seed);
  return 0;
}
