#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codec/geometry.h"
#include "tests/base/seed.h"
#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

/// All orders of the six axes.
std::vector<std::string> all_axes() {
  std::vector<std::string> all;
  std::string axes = "CHLPST";
  do {
    all.push_back(axes);
  } while (std::next_permutation(axes.begin(), axes.end()));
  return all;
}

/// The byte offset of a scalar by the words of model.h alone: axes outermost first, K before V.
std::uint64_t offset_by_words(const BlockShape& shape, const std::string& axes, bool is_v,
                              const std::map<char, std::uint64_t>& index) {
  const std::uint64_t page =
      shape.layout.page_tokens == 0 ? shape.tokens : shape.layout.page_tokens;
  std::map<char, std::uint64_t> extent{{'L', shape.layers},
                                       {'P', shape.tokens / page},
                                       {'H', shape.kv_heads},
                                       {'T', page},
                                       {'C', is_v ? shape.head_dim_v : shape.head_dim_k}};
  std::uint64_t inside_k = bytes_per_scalar(shape.dtype), inside_v = inside_k;
  for (const char axis : shape.layout.k_axes.substr(shape.layout.k_axes.find('S') + 1)) {
    inside_k *= axis == 'C' ? shape.head_dim_k : extent[axis];
  }
  for (const char axis : shape.layout.v_axes.substr(shape.layout.v_axes.find('S') + 1)) {
    inside_v *= axis == 'C' ? shape.head_dim_v : extent[axis];
  }
  std::uint64_t offset = 0, stride = bytes_per_scalar(shape.dtype);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (*axis == 'S') {
      offset += is_v ? inside_k : 0;
      stride = inside_k + inside_v;
    } else {
      offset += index.at(*axis) * stride;
      stride *= extent[*axis];
    }
  }
  return offset;
}

}  // namespace

TEST_CASE("Every scalar of every layout has one place, the one the axes spell out") {
  for (const std::string& axes : all_axes()) {
    CAPTURE(axes);
    const BlockShape shape = block_shape(DType::bf16, 2, 3, 4, 6, axes, "", 3);
    std::set<std::uint64_t> seen;
    for_each_scalar(
        shape, [&](std::uint32_t s, std::uint32_t channel, std::uint32_t token, std::uint64_t at) {
          const bool is_v = s % 2 == 1;
          REQUIRE(at == offset_by_words(shape, axes, is_v,
                                        {{'L', s / 2},
                                         {'P', token / 3},
                                         {'H', channel / 4},
                                         {'T', token % 3},
                                         {'C', channel % 4}}));
          seen.insert(at);
        });
    REQUIRE(seen.size() * 2 == shape.raw_bytes());
    REQUIRE(*seen.rbegin() == shape.raw_bytes() - 2);
  }
}

TEST_CASE("K and V of different sizes and orders after S share the payload without gaps") {
  for (const auto& [k_axes, v_axes] :
       std::vector<std::pair<std::string, std::string>>{{"LSPHTC", "LSPHTC"},
                                                        {"LPHSCT", "LPHSTC"},
                                                        {"SLTPHC", "SCLHPT"},
                                                        {"PTLSHC", "PTLSCH"}}) {
    BlockShape shape = block_shape(DType::fp16, 3, 2, 8, 12, k_axes, v_axes, 4);
    shape.head_dim_v = 5;
    CAPTURE(k_axes);
    std::set<std::uint64_t> seen;
    for_each_scalar(shape, [&](std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t at) {
      seen.insert(at);
    });
    CHECK(seen.size() * 2 == shape.raw_bytes());
    CHECK(*seen.rbegin() == shape.raw_bytes() - 2);
  }
}

TEST_CASE("A sub-stream's runs are its scalars by rising address") {
  for (const std::string& axes : all_axes()) {
    CAPTURE(axes);
    const BlockShape shape = block_shape(DType::fp32, 2, 3, 4, 6, axes, "", 3);
    for (std::uint32_t s = 0; s < shape.substreams(); ++s) {
      const Placement place = placement_of(shape, s);
      std::vector<std::uint64_t> by_runs, by_scalars;
      place.for_each_run([&](std::uint64_t at) {
        for (std::uint64_t i = 0; i < place.run_bytes; i += 4) by_runs.push_back(at + i);
      });
      for_each_scalar(shape,
                      [&](std::uint32_t index, std::uint32_t, std::uint32_t, std::uint64_t at) {
                        if (index == s) by_scalars.push_back(at);
                      });
      std::ranges::sort(by_scalars);
      REQUIRE(by_runs == by_scalars);
    }
  }
}

TEST_CASE("Every layout round-trips and its sub-streams have the same size in each") {
  const BlockShape plain = block_shape(DType::bf16, 2, 2, 16, 48);
  const auto tables = fit_on(plain, synthetic_kv(plain, 3, 4));
  std::uint64_t plain_bytes = 0;
  for (const std::string& axes : all_axes()) {
    CAPTURE(axes);
    const BlockShape shape = block_shape(DType::bf16, 2, 2, 16, 48, axes, "", 16);
    const ByteVector frame = round_trip(shape, tables.get(), synthetic_kv(shape, 3, 5));
    CHECK(inspect_frame(frame)->codec == CodecId::static_tables);
    if (plain_bytes == 0) plain_bytes = frame.size();
    CHECK(frame.size() == plain_bytes);
  }
}

TEST_CASE("Every dtype round-trips in random shapes, static and raw") {
  Random random(test_seed("shapes"));
  constexpr DType dtypes[] = {DType::bf16,     DType::fp16, DType::fp8_e4m3,
                              DType::fp8_e5m2, DType::int8, DType::fp32};
  const std::vector<std::string> axes = all_axes();
  for (int round = 0; round < 120; ++round) {
    const auto heads = static_cast<std::uint32_t>(1 + random.below(4));
    const auto dim = static_cast<std::uint32_t>(1 + random.below(40));
    const auto pages = static_cast<std::uint32_t>(1 + random.below(4));
    const auto page = static_cast<std::uint32_t>(1 + random.below(70));
    BlockShape shape =
        block_shape(dtypes[random.below(6)], static_cast<std::uint32_t>(1 + random.below(3)), heads,
                    dim, pages * page, axes[random.below(axes.size())], "", page);
    const std::size_t side_at = shape.layout.k_axes.find('S');
    if (random.one_in(2) && shape.layout.k_axes.find('C') > side_at) {
      shape.head_dim_v = static_cast<std::uint32_t>(random.below(40));
      std::string& v = shape.layout.v_axes;
      std::reverse(v.begin() + static_cast<std::ptrdiff_t>(side_at) + 1, v.end());
    }
    CAPTURE(to_string(shape.dtype));
    CAPTURE(shape.layout.k_axes);
    CAPTURE(shape.layout.v_axes);
    CAPTURE(shape.tokens);
    const ByteVector payload = synthetic_kv(shape, 1, random.bits());
    round_trip(shape, fit_on(shape, synthetic_kv(shape, 1, random.bits())).get(), payload);
    round_trip(shape, nullptr, payload);
  }
}

TEST_CASE("Shapes come from descriptors: latent and recurrent groups have their own form") {
  ModelDescriptor model;
  model.fingerprint = "m";
  model.block_tokens = 64;
  model.layout.page_tokens = 16;
  const LayerGroup latent{
      .kind = GroupKind::mla_latent, .layers = 2, .kv_heads = 1, .head_dim_k = 36};
  const LayerGroup state{
      .kind = GroupKind::recurrent_state, .layers = 2, .kv_heads = 4, .head_dim_k = 900};
  model.groups = {latent, state};
  REQUIRE(validate(model).ok());
  for (const LayerGroup& group : model.groups) {
    const BlockShape shape = BlockShape::of(model, group);
    CHECK(shape.raw_bytes() == block_bytes(model, group));
    CHECK(shape.substreams() == 2);
    const ByteVector frame = round_trip(shape, fit_on(shape, synthetic_kv(shape, 1, 1)).get(),
                                        synthetic_kv(shape, 1, 2));
    CHECK(inspect_frame(frame)->codec == CodecId::static_tables);
  }
}
