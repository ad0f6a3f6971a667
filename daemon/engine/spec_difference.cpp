#include "daemon/engine/spec_difference.h"

#include <utility>
#include <vector>

namespace kvstrata::daemon {

namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const Shard::Range& range) {
  return std::to_string(range.first) + ".." + std::to_string(range.last) + " of " +
         std::to_string(range.of);
}

std::string text_of(const std::vector<LayerGroup>& groups) {
  std::string text;
  for (const LayerGroup& group : groups) {
    text += text.empty() ? "" : ", ";
    text += std::string(to_string(group.kind)) + " " + std::to_string(group.layers) + " layers x " +
            std::to_string(group.kv_heads) + " heads x " + std::to_string(group.head_dim_k) + "/" +
            std::to_string(group.head_dim_v);
  }
  return text.empty() ? "none" : text;
}

// In the order in which people get them wrong.
Fields fields_of(const NamespaceSpec& spec) {
  const ModelDescriptor& model = spec.model;
  std::string extras;
  for (const std::string& extra : spec.extra_keys) extras += "[" + extra + "]";
  return {{"weight_epoch", std::to_string(spec.weight_epoch)},
          {"adapter", spec.adapter},
          {"salt", spec.salt},
          {"extra_keys", extras},
          {"model.fingerprint", model.fingerprint},
          {"model.dtype", std::string(to_string(model.dtype))},
          {"model.block_tokens", std::to_string(model.block_tokens)},
          {"model.vocab_size", std::to_string(model.vocab_size)},
          {"model.groups", text_of(model.groups)},
          {"model.layout.k_axes", model.layout.k_axes},
          {"model.layout.v_axes", model.layout.v_axes},
          {"model.layout.page_tokens", std::to_string(model.layout.page_tokens)},
          {"model.layout.isa", model.layout.isa},
          {"model.shard.heads", text_of(model.shard.heads)},
          {"model.shard.layers", text_of(model.shard.layers)},
          {"model.shard.tokens", text_of(model.shard.tokens)}};
}

}  // namespace

SpecDifference first_difference(const NamespaceSpec& here, const NamespaceSpec& there) {
  const Fields mine = fields_of(here);
  const Fields theirs = fields_of(there);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] == theirs[i]) continue;
    return {mine[i].first,
            mine[i].first + " is '" + mine[i].second + "' here, '" + theirs[i].second + "' there"};
  }
  return {};
}

}  // namespace kvstrata::daemon
