// The exact forward pass: near the same model in binary64, the same however a prefix is cut into
// blocks, and golden digests for each form of model.
#include "predictor/forward.h"

#include <doctest/doctest.h>

#include <limits>

#include "kvstrata/checksum.h"
#include "tests/predictor/plain_forward.h"
#include "tests/predictor/tiny_model.h"

using namespace kvstrata;
using namespace kvstrata::predictor;
using namespace kvstrata::test;

namespace {

/// Forms of model, and what all that the pass over 128 tokens says sums to.
struct Golden {
  TinyForm form;
  std::uint64_t digest;
};
const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all{
      {{.name = "llama, max"}, 2403333975422578901U},
      {{.name = "llama, balanced", .weight_bits = 8}, 5988337261379378671U},
      {{.name = "llama, fast", .weight_bits = 8, .activation_bits = 8}, 6214214131069469789U},
      {{.name = "llama, groups of 32", .group = 32, .weight_bits = 8, .activation_bits = 8},
       14671383836410930442U},
      {{.name = "mistral, window", .window = 40}, 8333302936071972176U},
      {{.name = "qwen2, bias", .heads = 6, .kv_heads = 3, .bias = true}, 6964595453979784526U},
      {{.name = "qwen3, norms", .heads = 4, .kv_heads = 1, .head_dim = 80, .qk_norm = true},
       2053241173112475420U},
  };
  return all;
}

/// What a layer of a cache has: the expected, a little off, K turned.
struct Layer {
  std::vector<float> k, v;
};

/// All that a pass says, and the cache it was told.
struct Said {
  std::vector<Expected> expected;
  std::vector<Layer> cache;
};

/// Tokens of a tiny model in blocks of `block`; the cache is made up, or that of `known`.
Said run(TinyModel& tiny, const std::vector<std::uint32_t>& tokens, std::size_t block,
         const Said* known = nullptr, codec::SimdLevel level = codec::best_simd_level()) {
  const Model& model = tiny.model();
  const std::size_t channels = model.config.kv_channels();
  Said said;
  said.expected.resize(model.layers.size());
  said.cache.resize(model.layers.size());
  KvSequence sequence = make_sequence(model);
  for (std::size_t first = 0; first < tokens.size(); first += block) {
    Forward forward(model, sequence, std::span(tokens).subspan(first, block), level);
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      const Expected expected = forward.expect();
      Layer now{expected.k, expected.v};
      for (std::size_t row = 0; row < block * model.config.kv_heads; ++row) {
        const auto position = static_cast<std::uint32_t>(first + row / model.config.kv_heads);
        turn(std::span(now.k).subspan(row * model.config.head_dim, model.config.head_dim),
             model.cosines_at(position), model.sines_at(position));
      }
      for (float& value : now.k) value += tiny.number(0.01F);
      for (float& value : now.v) value += tiny.number(0.01F);
      if (known != nullptr) {
        const auto part = [&](const std::vector<float>& all) {
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * channels);
          return std::vector(begin, begin + static_cast<std::ptrdiff_t>(block * channels));
        };
        now = {part(known->cache[l].k), part(known->cache[l].v)};
      }
      forward.know(now.k, now.v);
      const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(said.cache[l].k, now.k);
      append(said.cache[l].v, now.v);
      append(said.expected[l].k, expected.k);
      append(said.expected[l].v, expected.v);
      said.expected[l].digest = xxh3(std::as_bytes(std::span(&expected.digest, 1))) + first;
    }
    CHECK(forward.finite());
  }
  return said;
}

std::uint64_t digest_of(const Said& said) {
  std::uint64_t digest = 0;
  for (const Expected& expected : said.expected) {
    const std::uint64_t parts[] = {digest, xxh3(std::as_bytes(std::span(expected.k))),
                                   xxh3(std::as_bytes(std::span(expected.v))), expected.digest};
    digest = xxh3(std::as_bytes(std::span(parts)));
  }
  return digest;
}

PlainForward::Rows rows_of(const std::vector<float>& values, std::size_t channels) {
  PlainForward::Rows rows;
  for (std::size_t first = 0; first < values.size(); first += channels) {
    rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(first),
                      values.begin() + static_cast<std::ptrdiff_t>(first + channels));
  }
  return rows;
}

/// Root of the mean squared difference, as a part of the mean square.
double difference(const std::vector<float>& values, const PlainForward::Rows& rows) {
  double squares = 0, all = 0;
  std::size_t i = 0;
  for (const auto& row : rows) {
    for (const double exact : row) {
      const double error = static_cast<double>(values[i++]) - exact;
      squares += error * error;
      all += exact * exact;
    }
  }
  return std::sqrt(squares / all);
}

}  // namespace

TEST_CASE("The pass is near that of the same weights in binary64, as near as its codes are fine") {
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.form.name);
    TinyModel tiny(golden.form);
    const auto tokens = tiny.tokens(128);
    const Said said = run(tiny, tokens, 64);
    PlainForward plain(tiny.model(), tokens);
    const std::size_t channels = tiny.model().config.kv_channels();
    const double bound = golden.form.activation_bits == 8 ? 0.02 : 0.001;
    for (std::size_t l = 0; l < said.expected.size(); ++l) {
      CAPTURE(l);
      const auto [k, v] = plain.expect(l);
      CHECK(difference(said.expected[l].k, k) < bound);
      CHECK(difference(said.expected[l].v, v) < bound);
      if (l + 1 < said.expected.size()) {
        plain.know(l, rows_of(said.cache[l].k, channels), rows_of(said.cache[l].v, channels));
      }
    }
  }
}

TEST_CASE("However a prefix is cut into blocks, each token is expected to be the same") {
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.form.name);
    TinyModel tiny(golden.form);
    const auto tokens = tiny.tokens(192);
    const Said small = run(tiny, tokens, 64);
    const Said large = run(tiny, tokens, 192, &small);
    for (std::size_t l = 0; l < small.expected.size(); ++l) {
      CHECK((small.expected[l].k == large.expected[l].k));
      CHECK((small.expected[l].v == large.expected[l].v));
    }
  }
}

TEST_CASE("Golden digests of the pass, for each form of model, at every level of machine code") {
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.form.name);
    for (const auto level :
         {codec::SimdLevel::scalar, codec::SimdLevel::avx2, codec::SimdLevel::avx512}) {
      TinyModel tiny(golden.form);
      const auto tokens = tiny.tokens(128);
      CHECK(digest_of(run(tiny, tokens, 64, nullptr, level)) == golden.digest);
    }
  }
}

TEST_CASE("A correction moves the hidden state by errors; errors of zero move nothing") {
  TinyModel tiny({.name = "corrected"});
  const Model& model = tiny.model();
  const auto tokens = tiny.tokens(64);
  const std::uint32_t columns = 2 * model.config.kv_channels();
  const auto matrix = tiny.wide_matrix(model.config.hidden, columns, 0.1F);
  const auto second_layer = [&](const std::vector<float>* errors) {
    KvSequence sequence = make_sequence(model);
    Forward forward(model, sequence, tokens);
    const Expected first = forward.expect();
    std::optional<Correction> correction;
    if (errors != nullptr) correction = Correction{matrix, *errors};
    forward.know(first.k, first.v, correction);
    return forward.expect();
  };
  std::vector<float> errors(64 * columns);
  const Expected plain = second_layer(nullptr);
  CHECK(second_layer(&errors).digest == plain.digest);
  for (float& error : errors) error = tiny.number(1);
  const Expected moved = second_layer(&errors);
  CHECK(moved.digest != plain.digest);
  CHECK((moved.v != plain.v));
}

TEST_CASE("Scores beyond binary32 are noticed") {
  TinyModel tiny({.name = "large"});
  const auto tokens = tiny.tokens(64);
  KvSequence sequence = make_sequence(tiny.model());
  Forward forward(tiny.model(), sequence, tokens);
  Expected expected = forward.expect();
  CHECK(forward.finite());
  for (float& k : expected.k) k = k < 0 ? -3e38F : 3e38F;
  forward.know(expected.k, expected.v);
  CHECK_FALSE(forward.finite());
}

TEST_CASE("A NaN or an infinity in the cache is noticed") {
  for (const float none :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const bool in_k : {true, false}) {
      TinyModel tiny({.name = "no number"});
      const auto tokens = tiny.tokens(64);
      KvSequence sequence = make_sequence(tiny.model());
      Forward forward(tiny.model(), sequence, tokens);
      Expected expected = forward.expect();
      (in_k ? expected.k : expected.v)[70] = none;
      forward.know(expected.k, expected.v);
      CHECK_FALSE(forward.finite());
    }
  }
}
