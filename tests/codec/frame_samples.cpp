// frame_samples FOLDER SEED: writes frames of many shapes for slow_decoder_test.py, which reads
// them by the page of their format alone: NAME.json, NAME.payload, NAME.frame and NAME.tables.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "codec/codec.h"
#include "kvstrata/checksum.h"
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

/// Tables are fitted on other payloads, so that some keys have to escape.
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

 private:
  void write(const BlockShape& shape, const char* kind, ByteView payload,
             const StaticTables* tables) const {
    ByteVector frame(frame_bytes_max(shape));
    frame.resize(encode_frame(shape, tables, payload, xxh3(payload), frame).value());
    const std::string path = folder_ + "/" + std::to_string(count_) + "-" + kind;
    const std::string json = json_of(shape);
    write_file(path + ".json", std::as_bytes(std::span(json)));
    write_file(path + ".payload", payload);
    write_file(path + ".frame", frame);
    if (tables != nullptr) write_file(path + ".tables", tables->serialize());
  }

  std::string folder_;
  std::uint64_t seed_, count_ = 0;
};

BlockShape shape_of(DType dtype, std::uint32_t heads, std::uint32_t dim_k, std::uint32_t dim_v,
                    std::uint32_t tokens, const char* k_axes, const char* v_axes,
                    std::uint32_t page_tokens) {
  BlockShape shape = test::block_shape(dtype, 2, heads, dim_k, tokens, k_axes);
  shape.head_dim_v = dim_v;
  shape.layout.v_axes = v_axes;
  shape.layout.page_tokens = page_tokens;
  return shape;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: frame_samples FOLDER SEED\n", stderr);
    return 2;
  }
  Samples samples(argv[1], std::strtoull(argv[2], nullptr, 10));
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
  return 0;
}
