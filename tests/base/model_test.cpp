#include "kvstrata/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

namespace kvstrata::test {

namespace {

ModelDescriptor valid_model() {
  ModelDescriptor model;
  model.fingerprint = "model";
  model.groups = {{GroupKind::full_attention, 24, 2, 64, 64, 0}};
  return model;
}

using Change = std::function<void(ModelDescriptor&)>;

Status validate_with(const Change& change) {
  ModelDescriptor model = valid_model();
  change(model);
  return validate(model);
}

struct Fault {
  const char* named;  ///< what the message must say
  Change change;
};

void check_faults(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    const Status status = validate_with(fault.change);
    REQUIRE_MESSAGE(!status.ok(), fault.named);
    CHECK(status.error().kind() == ErrorKind::invalid_argument);
    CHECK_MESSAGE(status.error().message().find(fault.named) != std::string::npos,
                  status.error().message());
  }
}

}  // namespace

TEST_CASE("A model within all limits is valid") {
  const std::vector<Change> changes = {
      [](ModelDescriptor&) {},
      [](ModelDescriptor& m) { m.fingerprint = std::string(128, 'f'); },
      [](ModelDescriptor& m) { m.block_tokens = 16; },
      [](ModelDescriptor& m) { m.block_tokens = 1024; },
      [](ModelDescriptor& m) { m.vocab_size = 1U << 31; },
      [](ModelDescriptor& m) { m.groups.clear(); },  // opaque keys
      [](ModelDescriptor& m) { m.groups.resize(64, m.groups[0]); },
      [](ModelDescriptor& m) { m.layout.page_tokens = 16; },
      [](ModelDescriptor& m) { m.layout.isa = "amx"; },
      [](ModelDescriptor& m) { m.layout.k_axes = "LPHSCT", m.layout.v_axes = "LPHSTC"; },
      [](ModelDescriptor& m) { m.shard.heads = {0, 1, 8}, m.shard.layers = {7, 8, 8}; },
      [](ModelDescriptor& m) {
        m.groups = {{GroupKind::sliding_window, 1, 1, 64, 64, 128},
                    {GroupKind::mla_latent, 61, 1, 576, 0, 0},
                    {GroupKind::recurrent_state, 1, 16, 128, 0, 0},
                    {GroupKind::recurrent_state, 1, 16, 128, 64, 0}};
      },
  };
  for (const Change& change : changes) {
    const Status status = validate_with(change);
    CHECK_MESSAGE(status.ok(), (status ? "" : status.error().message()));
  }
}

TEST_CASE("Each field of a model that is out of range is named") {
  check_faults({
      {"fingerprint length", [](ModelDescriptor& m) { m.fingerprint.clear(); }},
      {"fingerprint length", [](ModelDescriptor& m) { m.fingerprint = std::string(129, 'f'); }},
      {"dtype", [](ModelDescriptor& m) { m.dtype = DType{0}; }},
      {"dtype", [](ModelDescriptor& m) { m.dtype = DType{7}; }},
      {"block_tokens", [](ModelDescriptor& m) { m.block_tokens = 15; }},
      {"block_tokens", [](ModelDescriptor& m) { m.block_tokens = 1025; }},
      {"vocab_size", [](ModelDescriptor& m) { m.vocab_size = (1U << 31) + 1; }},
      {"number of groups", [](ModelDescriptor& m) { m.groups.resize(65, m.groups[0]); }},
      {"layout isa length", [](ModelDescriptor& m) { m.layout.isa = std::string(65, 'i'); }},
      {"layout page_tokens", [](ModelDescriptor& m) { m.layout.page_tokens = 17; }},
      {"layout page_tokens", [](ModelDescriptor& m) { m.layout.page_tokens = 512; }},
  });
}

TEST_CASE("Each field of a layer group that is out of range is named") {
  check_faults({
      {"group kind", [](ModelDescriptor& m) { m.groups[0].kind = GroupKind{0}; }},
      {"group kind", [](ModelDescriptor& m) { m.groups[0].kind = GroupKind{5}; }},
      {"layers", [](ModelDescriptor& m) { m.groups[0].layers = 0; }},
      {"layers", [](ModelDescriptor& m) { m.groups[0].layers = 1025; }},
      {"kv_heads", [](ModelDescriptor& m) { m.groups[0].kv_heads = 0; }},
      {"kv_heads", [](ModelDescriptor& m) { m.groups[0].kv_heads = 1025; }},
      {"head_dim_k", [](ModelDescriptor& m) { m.groups[0].head_dim_k = 0; }},
      {"head_dim_k", [](ModelDescriptor& m) { m.groups[0].head_dim_k = 65537; }},
      {"head_dim_v", [](ModelDescriptor& m) { m.groups[0].head_dim_v = 0; }},
      {"head_dim_v", [](ModelDescriptor& m) { m.groups[0].head_dim_v = 65537; }},
      {"window_tokens", [](ModelDescriptor& m) { m.groups[0].window_tokens = 1; }},
      {"window_tokens", [](ModelDescriptor& m) { m.groups[0].kind = GroupKind::sliding_window; }},
      {"window_tokens",
       [](ModelDescriptor& m) {
         m.groups[0].kind = GroupKind::sliding_window;
         m.groups[0].window_tokens = (1U << 30) + 1;
       }},
      {"layers", [](ModelDescriptor& m) { m.groups.push_back({}); }},  // also in a later group
  });
}

TEST_CASE("A shard range that is empty, reversed or beyond its end is named") {
  check_faults({
      {"shard heads", [](ModelDescriptor& m) { m.shard.heads = {2, 2, 8}; }},
      {"shard heads", [](ModelDescriptor& m) { m.shard.heads = {0, 0, 8}; }},
      {"shard layers", [](ModelDescriptor& m) { m.shard.layers = {3, 2, 8}; }},
      {"shard tokens", [](ModelDescriptor& m) { m.shard.tokens = {0, 9, 8}; }},
      {"shard tokens", [](ModelDescriptor& m) { m.shard.tokens = {0, 1, 0}; }},
  });
}

TEST_CASE("Axes that are missing, doubled or unknown are refused") {
  for (const char* axes : {"", "LSPHT", "LSPHTCC", "LSPHTT", "LSPHTX", "lsphtc"}) {
    check_faults({{"layout axes", [axes](ModelDescriptor& m) { m.layout.k_axes = axes; }},
                  {"layout axes", [axes](ModelDescriptor& m) { m.layout.v_axes = axes; }}});
  }
}

TEST_CASE("Any order of the axes is a layout, if K and V agree up to the side") {
  std::string axes = "CHLPST";
  do {
    const std::size_t side = axes.find('S');
    CHECK(validate_with([&](ModelDescriptor& m) {
            m.layout.k_axes = axes;
            m.layout.v_axes = axes;
            std::reverse(m.layout.v_axes.begin() + static_cast<std::ptrdiff_t>(side) + 1,
                         m.layout.v_axes.end());
          }).ok());
    if (side < 2) continue;
    check_faults({{"only after axis S", [&](ModelDescriptor& m) {
                     m.layout.k_axes = axes;
                     m.layout.v_axes = axes;
                     std::swap(m.layout.v_axes[0], m.layout.v_axes[1]);
                   }}});
  } while (std::ranges::next_permutation(axes).found);
}

TEST_CASE("Channels outside the side are refused where K and V have different many") {
  ModelDescriptor model = valid_model();
  model.layout.k_axes = model.layout.v_axes = "LCSPHT";
  CHECK(validate(model).ok());
  model.groups[0].head_dim_v = model.groups[0].head_dim_k * 2;
  CHECK_FALSE(validate(model).ok());
}

TEST_CASE("A block has at most 1 GiB, and one byte at least") {
  const auto with_dims = [](std::uint32_t kv_heads, std::uint32_t head_dim) {
    return [=](ModelDescriptor& m) {
      m.block_tokens = 1024;
      m.dtype = DType::int8;
      m.groups = {{GroupKind::full_attention, 1, kv_heads, head_dim, head_dim, 0}};
    };
  };
  CHECK(validate_with(with_dims(512, 1024)).ok());  // exactly 1 GiB
  check_faults({{"bytes of one block", with_dims(512, 1025)},
                {"bytes of one block", with_dims(1024, 65536)}});
}

TEST_CASE("The length of a block is the product of its axes") {
  ModelDescriptor model = valid_model();
  CHECK(block_bytes(model, model.groups[0]) == 256ULL * 24 * 2 * (64 + 64) * 2);
  model.dtype = DType::fp8_e4m3;
  CHECK(block_bytes(model, model.groups[0]) == 256ULL * 24 * 2 * (64 + 64));
  model.dtype = DType::fp32;
  CHECK(block_bytes(model, {GroupKind::recurrent_state, 3, 8, 128, 64, 0}) ==
        3ULL * 8 * (128 + 64) * 4);  // one snapshot a block, not one a token
  CHECK(block_bytes(model, {GroupKind::mla_latent, 27, 1, 576, 0, 0}) == 256ULL * 27 * 576 * 4);
}

TEST_CASE("Names of dtypes and group kinds can be read back, others name what is known") {
  for (const DType dtype :
       {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2, DType::int8, DType::fp32}) {
    CHECK(parse_dtype(to_string(dtype)).value() == dtype);
  }
  for (const GroupKind kind : {GroupKind::full_attention, GroupKind::sliding_window,
                               GroupKind::recurrent_state, GroupKind::mla_latent}) {
    CHECK(parse_group_kind(to_string(kind)).value() == kind);
  }
  CHECK(parse_dtype("BF16").error().message() ==
        "dtype 'BF16' is unknown; known are bf16, fp16, fp8_e4m3, fp8_e5m2, int8, fp32");
  CHECK(parse_group_kind("").error().kind() == ErrorKind::invalid_argument);
  CHECK(to_string(DType{0}) == "unknown");
  CHECK(to_string(GroupKind{9}) == "unknown");
}

}  // namespace kvstrata::test
