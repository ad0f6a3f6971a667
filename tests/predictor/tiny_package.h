// package_of(): a tiny model as the bytes of a package file. reseal(): makes its sums right again.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "include/impl/blake2b.h"
#include "kvstrata/bytes.h"
#include "kvstrata/checksum.h"
#include "predictor/package_layout.h"
#include "predictor/package_writer.h"
#include "tests/predictor/tiny_model.h"

namespace kvstrata::test {

inline predictor::PackageConfig config_of(const TinyModel& tiny, bool bf16_rope = false) {
  const predictor::ModelConfig& model = tiny.model().config;
  const TinyForm& form = tiny.form();
  predictor::PackageConfig config{};
  config.arithmetic = predictor::Arithmetic::integers;
  config.weight_bits = static_cast<std::uint8_t>(form.weight_bits);
  config.activation_bits = static_cast<std::uint8_t>(form.activation_bits);
  config.group = static_cast<std::uint16_t>(form.group);
  config.layers = model.layers;
  config.hidden = model.hidden;
  config.intermediate = model.intermediate;
  config.vocab = model.vocab;
  config.heads = model.heads;
  config.kv_heads = model.kv_heads;
  config.head_dim = model.head_dim;
  config.rotary_dim = model.rotary_dim;
  config.positions = model.positions;
  config.window = model.window;
  config.eps = model.eps;
  config.softmax_scale = model.softmax_scale;
  config.rope_inverse = model.rope_inverse;
  config.flags = (form.bias ? predictor::has_bias : 0) |
                 (form.qk_norm ? predictor::has_qk_norm : 0) |
                 (bf16_rope ? predictor::has_bf16_rope : 0);
  return config;
}

/// Puts a model's numbers into the sections, a layer of codes and scales at a time.
inline Status write_weights(const TinyModel& tiny, bool bf16_rope,
                            predictor::PackageWriter& writer) {
  using predictor::SectionKind;
  const predictor::Model& model = tiny.model();
  KV_TRY(writer.append(SectionKind::embedding, std::as_bytes(model.embedding)));
  for (const std::span<const float> table : {model.cosines, model.sines}) {
    std::vector<std::uint16_t> narrow;
    for (const float number : table) {
      narrow.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16));
    }
    KV_TRY(writer.append(SectionKind::rope,
                         bf16_rope ? std::as_bytes(std::span(narrow)) : std::as_bytes(table)));
  }
  for (const predictor::LayerWeights& layer : model.layers) {
    for (const std::span<const float> vector :
         {layer.input_norm, layer.post_norm, layer.q_bias, layer.k_bias, layer.v_bias, layer.q_norm,
          layer.k_norm}) {
      KV_TRY(writer.append(SectionKind::vectors, std::as_bytes(vector)));
    }
    for (const predictor::Weights* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      const auto append = [&](const auto& view) -> Status {
        const std::size_t groups = std::size_t{view.tiles()} * predictor::tile_rows * view.groups();
        KV_TRY(writer.append(SectionKind::codes,
                             std::as_bytes(std::span(view.codes, groups * view.group))));
        return writer.append(SectionKind::scales, std::as_bytes(std::span(view.scales, groups)));
      };
      KV_TRY(std::visit(append, *matrix));
    }
  }
  return {};
}

inline Result<ByteVector> package_of(const TinyModel& tiny, bool bf16_rope = false,
                                     const std::vector<std::string_view>& statistics = {}) {
  ByteVector file;
  const auto sink = [&](std::uint64_t offset, ByteView bytes) -> Status {
    file.resize(std::max<std::size_t>(file.size(), offset + bytes.size()));
    std::ranges::copy(bytes, file.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  };
  KV_ASSIGN(auto writer, predictor::PackageWriter::begin(config_of(tiny, bf16_rope), sink));
  KV_TRY(write_weights(tiny, bf16_rope, writer));
  for (const std::string_view text : statistics) KV_TRY(writer.add_statistics(as_bytes(text)));
  KV_TRY(writer.finish());
  return file;
}

/// Makes the sums of a file right, whatever was changed in it, so that what it says is read.
inline void reseal(ByteVector& file) {
  predictor::PackageHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  std::byte* const table = file.data() + sizeof header;
  const std::size_t entries = std::min(header.entries, predictor::package_entries_max);
  for (std::size_t i = 0; i < entries; ++i) {
    predictor::PackageEntry entry;
    std::memcpy(&entry, table + i * sizeof entry, sizeof entry);
    if (entry.offset > file.size() || entry.bytes > file.size() - entry.offset) continue;
    entry.hash = blake2b(ByteView(file).subspan(entry.offset, entry.bytes));
    std::memcpy(table + i * sizeof entry, &entry, sizeof entry);
  }
  const std::size_t of_weights = std::min<std::size_t>(entries, predictor::weight_sections);
  header.weights_hash = blake2b({table, of_weights * sizeof(predictor::PackageEntry)});
  header.header_xxh3 = 0;
  std::memcpy(file.data(), &header, sizeof header);
  header.header_xxh3 = xxh3(ByteView(file).first(predictor::package_header_bytes));
  std::memcpy(file.data(), &header, sizeof header);
}

}  // namespace kvstrata::test
