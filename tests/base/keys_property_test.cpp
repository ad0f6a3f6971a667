// Random field sets: no two different ones have one key, and equal ones always do.
#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "kvstrata/keys.h"
#include "tests/base/seed.h"

namespace kvstrata::test {

namespace {

bool same(const NamespaceSpec& a, const NamespaceSpec& b) {
  return a.tenant == b.tenant && a.model == b.model && a.salt == b.salt && a.adapter == b.adapter &&
         a.extra_keys == b.extra_keys && a.weight_epoch == b.weight_epoch;
}

/// A SpecMaker draws fields from few values, so that different sets often hold the same pieces.
class SpecMaker {
 public:
  explicit SpecMaker(std::uint64_t seed) : random_(seed) {}

  NamespaceSpec make() {
    NamespaceSpec spec;
    spec.tenant = text();
    spec.model = model();
    spec.salt = text();
    spec.adapter = text();
    for (std::uint64_t n = random_.below(4); n > 0; --n) spec.extra_keys.push_back(text());
    spec.weight_epoch = number();
    return spec;
  }

  /// Changes exactly one field.
  void change_one(NamespaceSpec& spec) {
    const std::vector<std::function<void()>> changes = {
        [&] { spec.tenant += 'x'; },
        [&] { spec.salt += 'x'; },
        [&] { spec.adapter += 'x'; },
        [&] { spec.extra_keys.emplace_back(); },
        [&] { spec.weight_epoch += std::uint64_t{1} << random_.below(64); },
        [&] { spec.model.fingerprint += 'x'; },
        [&] { spec.model.dtype = other(spec.model.dtype); },
        [&] { flip(spec.model.block_tokens); },
        [&] { flip(spec.model.vocab_size); },
        [&] { spec.model.groups.push_back(group()); },
        [&] { std::swap(spec.model.layout.k_axes[0], spec.model.layout.k_axes[1]); },
        [&] { std::swap(spec.model.layout.v_axes[4], spec.model.layout.v_axes[5]); },
        [&] { flip(spec.model.layout.page_tokens); },
        [&] { spec.model.layout.isa += 'x'; },
        [&] { change_range(spec.model.shard.heads); },
        [&] { change_range(spec.model.shard.layers); },
        [&] { change_range(spec.model.shard.tokens); },
        [&] { change_group(spec.model.groups); },
    };
    changes[random_.below(changes.size())]();
  }

 private:
  std::string text() {
    static constexpr std::array<std::string_view, 8> texts{"", "", "a", "b", "ab", "X", "abc", "c"};
    return std::string(texts[random_.below(texts.size())]);
  }
  std::uint32_t number() { return static_cast<std::uint32_t>(random_.below(3)); }
  void flip(std::uint32_t& n) { n ^= std::uint32_t{1} << random_.below(32); }

  static DType other(DType dtype) { return dtype == DType::bf16 ? DType::fp16 : DType::bf16; }

  Shard::Range range() { return {number(), number(), number()}; }
  void change_range(Shard::Range& range) {
    flip(random_.one_in(2) ? range.first : random_.one_in(2) ? range.last : range.of);
  }

  LayerGroup group() {
    return {static_cast<GroupKind>(1 + random_.below(4)),
            number(),
            number(),
            number(),
            number(),
            number()};
  }
  void change_group(std::vector<LayerGroup>& groups) {
    if (groups.empty()) return groups.push_back(group());
    LayerGroup& group = groups[random_.below(groups.size())];
    switch (random_.below(6)) {
      case 0: flip(group.layers); break;
      case 1: flip(group.kv_heads); break;
      case 2: flip(group.head_dim_k); break;
      case 3: flip(group.head_dim_v); break;
      case 4: flip(group.window_tokens); break;
      default:
        group.kind = group.kind == GroupKind::full_attention ? GroupKind::sliding_window
                                                             : GroupKind::full_attention;
    }
  }

  ModelDescriptor model() {
    ModelDescriptor model;
    model.fingerprint = text();
    model.dtype = static_cast<DType>(1 + random_.below(6));
    model.block_tokens = number();
    model.vocab_size = number();
    for (std::uint64_t n = random_.below(3); n > 0; --n) model.groups.push_back(group());
    if (random_.one_in(2)) model.layout.k_axes = "LPHSCT";
    if (random_.one_in(2)) model.layout.v_axes = "LPHSTC";
    model.layout.page_tokens = number();
    model.layout.isa = text();
    if (random_.one_in(4)) model.shard = {range(), range(), range()};
    return model;
  }

  Random random_;
};

}  // namespace

TEST_CASE("A2: no two different field sets have one namespace") {
  SpecMaker maker(test_seed("namespaces"));
  std::map<Hash256, NamespaceSpec> seen;
  for (int i = 0; i < 50'000; ++i) {
    const NamespaceSpec spec = maker.make();
    const auto [at, is_new] = seen.emplace(namespace_hash(spec), spec);
    REQUIRE((is_new || same(at->second, spec)));
  }
}

TEST_CASE("Changing one field changes the namespace, and nothing else does") {
  SpecMaker maker(test_seed("one field"));
  for (int i = 0; i < 20'000; ++i) {
    const NamespaceSpec spec = maker.make();
    NamespaceSpec changed = spec;
    REQUIRE(namespace_hash(changed) == namespace_hash(spec));
    maker.change_one(changed);
    REQUIRE_FALSE(same(changed, spec));
    REQUIRE(namespace_hash(changed) != namespace_hash(spec));
  }
}

TEST_CASE("The same text in another field is another namespace") {
  using Setter = std::function<void(NamespaceSpec&, std::string)>;
  const std::vector<Setter> fields = {
      [](NamespaceSpec& s, std::string t) { s.tenant = std::move(t); },
      [](NamespaceSpec& s, std::string t) { s.salt = std::move(t); },
      [](NamespaceSpec& s, std::string t) { s.adapter = std::move(t); },
      [](NamespaceSpec& s, std::string t) { s.extra_keys = {std::move(t)}; },
      [](NamespaceSpec& s, std::string t) { s.model.fingerprint = std::move(t); },
      [](NamespaceSpec& s, std::string t) { s.model.layout.isa = std::move(t); },
  };
  std::map<Hash256, std::string> seen;
  const auto check_new = [&seen](const NamespaceSpec& spec, const std::string& what) {
    const auto [at, is_new] = seen.emplace(namespace_hash(spec), what);
    CHECK_MESSAGE(is_new, what << " and " << at->second);
  };
  for (std::size_t i = 0; i < fields.size(); ++i) {
    NamespaceSpec one;
    fields[i](one, "X");
    check_new(one, "X in field " + std::to_string(i));
    for (std::size_t j = 0; j < fields.size(); ++j) {
      if (i == j) continue;
      for (const auto& [left, right] : {std::pair("ab", "c"), std::pair("a", "bc")}) {
        NamespaceSpec two;
        fields[i](two, left);
        fields[j](two, right);
        check_new(two, std::string(left) + " in " + std::to_string(i) + ", " + right + " in " +
                           std::to_string(j));
      }
    }
  }
}

}  // namespace kvstrata::test
