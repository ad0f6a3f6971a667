#include "bench/codec/kv_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "bench/common/must.h"
#include "codec/scalar_format.h"
#include "tools/kvstrata/safetensors.h"

namespace kvstrata::bench {

namespace {

std::uint32_t rounded(float value, const codec::ScalarFormat& format, float largest) {
  const int bias = (1 << (format.key_bits - 1)) - 1;
  const auto mantissa_bits = static_cast<int>(format.mantissa_bits);
  const float size = std::min(std::fabs(value), largest);
  int exponent = 0;
  std::frexp(size, &exponent);
  const int binade = std::max(exponent - 1, 1 - bias);
  const auto steps =
      static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, mantissa_bits - binade)));
  // A whole binade of steps is the exponent's own one.
  const std::uint32_t pattern =
      (static_cast<std::uint32_t>(binade - (1 - bias)) << mantissa_bits) + steps;
  return pattern | (std::signbit(value) ? 1U << (format.key_bits + format.mantissa_bits) : 0U);
}

float largest_of(DType dtype) {
  switch (dtype) {
    case DType::fp16: return 65504;
    case DType::fp8_e4m3: return 448;
    case DType::fp8_e5m2: return 57344;
    default: fail("bench codec: blocks are not converted to " + std::string(to_string(dtype)));
  }
}

}  // namespace

std::vector<ByteView> KvBlocks::views() const {
  return {payloads.begin(), payloads.end()};
}

KvBlocks load_kv(const std::string& path, std::size_t blocks_max) {
  const tool::SafetensorsFile file = must(tool::SafetensorsFile::open(path), "bench codec");
  KvBlocks blocks;
  for (const tool::Tensor& tensor : file.tensors()) {
    if (tensor.dtype != "BF16" || tensor.shape.size() != 5 || tensor.shape[1] != 2) {
      fail(path + ": tensor " + tensor.name + " is no block, bf16 [layers, 2, heads, tokens, dim]");
    }
    const auto size = [&](std::size_t axis) {
      return static_cast<std::uint32_t>(tensor.shape[axis]);
    };
    blocks.shape.layers = size(0);
    blocks.shape.kv_heads = size(2);
    blocks.shape.tokens = size(3);
    blocks.shape.head_dim_k = blocks.shape.head_dim_v = size(4);
    blocks.payloads.emplace_back(tensor.data.begin(), tensor.data.end());
    const std::string number = tensor.name.substr(tensor.name.find('.') + 1);  // SEQUENCE.BLOCK
    blocks.first_positions.push_back(
        static_cast<std::uint32_t>(std::strtoul(number.c_str(), nullptr, 10)) *
        blocks.shape.tokens);
    if (blocks.payloads.back().size() != blocks.payloads.front().size()) {
      fail(path + ": blocks differ in size");
    }
    if (blocks.payloads.size() == blocks_max) break;
  }
  if (blocks.payloads.empty()) fail(path + ": it holds no blocks");
  return blocks;
}

KvBlocks first_blocks(const KvBlocks& blocks, std::size_t count) {
  KvBlocks first = blocks;
  first.payloads.resize(std::min(count, blocks.payloads.size()));
  first.first_positions.resize(first.payloads.size());
  return first;
}

KvBlocks interleaved(const KvBlocks& a, const KvBlocks& b) {
  KvBlocks both{.shape = a.shape, .payloads = {}, .first_positions = {}};
  for (std::size_t i = 0; i < std::min(a.payloads.size(), b.payloads.size()); ++i) {
    for (const KvBlocks* from : {&a, &b}) {
      both.payloads.push_back(from->payloads[i]);
      both.first_positions.push_back(from->first_positions[i]);
    }
  }
  return both;
}

KvBlocks convert(const KvBlocks& bf16, DType dtype) {
  const codec::ScalarFormat format = codec::scalar_format(dtype);
  const float largest = largest_of(dtype);
  std::vector<std::uint32_t> pattern_of(std::size_t{1} << 16);
  for (std::uint32_t bits = 0; bits < pattern_of.size(); ++bits) {
    pattern_of[bits] = rounded(std::bit_cast<float>(bits << 16), format, largest);
  }
  KvBlocks blocks;
  blocks.shape = bf16.shape;
  blocks.shape.dtype = dtype;
  blocks.first_positions = bf16.first_positions;
  for (const ByteVector& payload : bf16.payloads) {
    ByteVector& converted = blocks.payloads.emplace_back(payload.size() / 2 * format.bytes);
    for (std::size_t i = 0; i < payload.size() / 2; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, &payload[2 * i], sizeof bits);
      std::memcpy(&converted[i * format.bytes], &pattern_of[bits], format.bytes);
    }
  }
  return blocks;
}

KvBlocks cut_layers(const KvBlocks& blocks, std::uint32_t first, std::uint32_t layers) {
  const std::size_t layer_bytes = blocks.shape.raw_bytes() / blocks.shape.layers;
  KvBlocks cut;
  cut.shape = blocks.shape;
  cut.shape.layers = layers;
  cut.first_positions = blocks.first_positions;
  for (const ByteVector& payload : blocks.payloads) {
    const ByteView part = ByteView(payload).subspan(first * layer_bytes, layers * layer_bytes);
    cut.payloads.emplace_back(part.begin(), part.end());
  }
  return cut;
}

}  // namespace kvstrata::bench
