#include <doctest/doctest.h>

#include "daemon/protocol/model_body.h"
#include "tests/daemon/protocol_kit.h"

using namespace kvstrata;
using protocol::Body;

namespace {

std::uint32_t in_range(test::Random& random, std::uint64_t low, std::uint64_t high) {
  return static_cast<std::uint32_t>(low + random.below(high - low + 1));
}

Shard::Range random_range(test::Random& random) {
  if (random.one_in(2)) return {};
  const std::uint32_t first = in_range(random, 0, 9);
  return {first, first + 1, first + in_range(random, 1, 9)};
}

LayerGroup random_group(test::Random& random) {
  LayerGroup group;
  group.kind = static_cast<GroupKind>(in_range(random, 1, 4));
  group.layers = in_range(random, 1, 8);
  group.kv_heads = group.kind == GroupKind::mla_latent ? 1 : in_range(random, 1, 8);
  group.head_dim_k = in_range(random, 1, 128);
  group.head_dim_v = group.kind == GroupKind::mla_latent ? 0 : in_range(random, 1, 128);
  if (group.kind == GroupKind::sliding_window) group.window_tokens = in_range(random, 1, 4096);
  return group;
}

ModelDescriptor random_model(test::Random& random) {
  ModelDescriptor model;
  model.fingerprint = "f" + test::random_text(random, 100);
  model.dtype = static_cast<DType>(in_range(random, 1, 6));
  model.block_tokens = 16 * in_range(random, 1, 64);
  model.vocab_size = in_range(random, 0, 200'000);
  for (std::uint64_t groups = random.below(4); groups > 0; --groups) {
    model.groups.push_back(random_group(random));
  }
  if (random.one_in(2)) model.layout = {"LPHSCT", "LPHSTC", 16, "amx"};
  model.shard = {random_range(random), random_range(random), random_range(random)};
  return model;
}

Body small_model() {
  Body group;
  group.set_text("kind", "full_attention").set_u64("layers", 2).set_u64("kv_heads", 2);
  group.set_u64("head_dim_k", 8).set_u64("head_dim_v", 8);
  Body body;
  body.set_text("fingerprint", "f").set_text("dtype", "bf16").set_u64("block_tokens", 16);
  return body.set_bodies("groups", std::vector{group});
}

std::string why(const Body& body) {
  const auto model = protocol::decode_model(body);
  REQUIRE(!model.ok());
  CHECK(model.error().kind() == ErrorKind::invalid_argument);
  return model.error().message();
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("Every valid descriptor comes back as it was") {
  test::Random random(test::test_seed("model round trip"));
  int valid = 0;
  for (int i = 0; i < 1000; ++i) {
    const ModelDescriptor model = random_model(random);
    const auto bytes = protocol::encode_model(model).serialize();
    const auto decoded = protocol::decode_model(*Body::parse(bytes));
    CHECK(decoded.ok() == validate(model).ok());
    if (!decoded.ok()) continue;
    CHECK(*decoded == model);
    ++valid;
  }
  CHECK(valid > 100);
}

TEST_CASE("Fields left out have the defaults of ModelDescriptor") {
  const auto model = protocol::decode_model(small_model());
  REQUIRE(model.ok());
  CHECK(model->layout == Layout{});
  CHECK(model->shard == Shard{});
  CHECK(model->vocab_size == 0);
}

TEST_CASE("A model needs its dtype unless its values are opaque") {
  Body opaque;
  opaque.set_text("fingerprint", "f");
  CHECK(protocol::decode_model(opaque).ok());
  Body model = small_model();
  CHECK(protocol::decode_model(model).ok());
  model.set_u64("dtype", 1);
  CHECK(mentions(why(model), "'dtype'"));
}

TEST_CASE("A wrong field of a model is named") {
  CHECK(mentions(why(Body()), "'fingerprint'"));
  CHECK(mentions(why(small_model().set_text("dtype", "bf15")), "bf15"));
  CHECK(mentions(why(small_model().set_u64("block_tokens", 5)), "block_tokens"));
  CHECK(mentions(why(small_model().set_text("layout", "LSPHTC")), "'layout'"));
  CHECK(mentions(why(small_model().set_bodies("groups", std::vector{Body()})), "group 0"));
  Body layout;
  layout.set_text("k_axes", "LLLLLL");
  CHECK(mentions(why(small_model().set_body("layout", layout)), "LLLLLL"));
  Body shard;
  shard.set_u64s("heads", std::vector<std::uint64_t>{1, 2});
  CHECK(mentions(why(small_model().set_body("shard", shard)), "'heads'"));
}

TEST_CASE("A registration brings salt, adapter and extra keys as bytes") {
  NamespaceSpec spec;
  spec.model = *protocol::decode_model(small_model());
  spec.salt = std::string("\0\xff", 2);
  spec.adapter = "lora-7";
  spec.extra_keys = {"b", "", "a"};
  Body body;
  protocol::encode_register(spec, body);
  const auto decoded = protocol::decode_register(*Body::parse(body.serialize()));
  REQUIRE(decoded.ok());
  CHECK(decoded->salt == spec.salt);
  CHECK(decoded->adapter == spec.adapter);
  CHECK(decoded->extra_keys == spec.extra_keys);
  CHECK(decoded->model == spec.model);
}

TEST_CASE("A registration over a limit is refused by field") {
  const auto refusal = [](Body body) {
    body.set_body("model", small_model());
    const auto decoded = protocol::decode_register(body);
    REQUIRE(!decoded.ok());
    return decoded.error().message();
  };
  CHECK(mentions(refusal(Body().set_bytes("salt", ByteVector(257))), "'salt'"));
  CHECK(mentions(refusal(Body().set_bytes("adapter", ByteVector(257))), "'adapter'"));
  const std::vector<std::string> many(17);
  CHECK(mentions(refusal(Body().set_byte_strings("extra_keys", many)), "'extra_keys'"));
  CHECK(!protocol::decode_register(Body()).ok());
}
