// A small model and blocks for end-to-end tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kvstrata/client.h"

namespace kvstrata::test {

/// 4 layers, 4 heads of 32, blocks of 64 tokens in bf16: 128 KiB a block.
inline NamespaceSpec test_model() {
  NamespaceSpec spec;
  spec.model.fingerprint = "e2e";
  spec.model.block_tokens = 64;
  spec.model.groups = {{GroupKind::full_attention, 4, 4, 32, 32, 0}};
  return spec;
}

/// A sequence's tokens and payloads.
struct TestSequence {
  std::vector<std::uint32_t> tokens;
  std::vector<ByteVector> blocks;

  TestSequence(std::uint32_t seed, std::size_t count) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < count * 64; ++i) {
      tokens.push_back(static_cast<std::uint32_t>(random() % 50'000));
    }
    for (std::size_t b = 0; b < count; ++b) {
      ByteVector block(128 * 1024);
      for (std::size_t i = 0; i < block.size(); i += 2) {
        const float value = normal(random);
        store_le(block.data() + i,
                 static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
      }
      blocks.push_back(std::move(block));
    }
  }

  std::vector<ByteView> views() const { return {blocks.begin(), blocks.end()}; }
};

}  // namespace kvstrata::test
