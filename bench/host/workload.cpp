#include "bench/host/workload.h"

#include <cstring>

namespace kvstrata::bench {

NamespaceSpec megabyte_model() {
  NamespaceSpec spec;
  spec.model.fingerprint = "bench-1MiB";
  spec.model.block_tokens = 16;
  spec.model.groups = {{GroupKind::full_attention, 32, 8, 64, 64, 0}};
  return spec;
}

NamespaceSpec index_model() {
  NamespaceSpec spec;
  spec.model.fingerprint = "bench-index";
  spec.model.block_tokens = 256;
  spec.model.dtype = DType::fp8_e4m3;
  spec.model.groups = {{GroupKind::full_attention, 1, 1, 1, 1, 0}};
  return spec;
}

std::vector<std::uint32_t> tokens_of(std::uint32_t number, std::size_t blocks,
                                     std::uint32_t block_tokens) {
  std::mt19937 random(number);
  std::vector<std::uint32_t> tokens(blocks * block_tokens);
  for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(random()) % 150'000;
  return tokens;
}

WorkingSet::WorkingSet() : bytes_(new std::byte[working_set_blocks * block_bytes]) {
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < working_set_blocks * block_bytes; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(bytes_.get() + i, &word, sizeof word);
  }
}

std::uint64_t sum_of(ByteView bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + sizeof sum <= bytes.size(); i += sizeof sum) {
    sum += load_le<std::uint64_t>(bytes.data() + i);
  }
  return sum;
}

}  // namespace kvstrata::bench
