#include <doctest/doctest.h>

#include "daemon/protocol/body.h"
#include "tests/daemon/protocol_kit.h"

using namespace kvstrata;
using protocol::Body;
using test::from_hex;

namespace {

/// Why bytes are refused; empty if they are not.
std::string refusal(std::string_view hex) {
  const auto body = Body::parse(from_hex(hex));
  if (body.ok()) return "";
  CHECK(body.error().kind() == ErrorKind::invalid_argument);
  return body.error().message();
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

template <typename T>
std::string why(const Result<T>& result) {
  REQUIRE(!result.ok());
  CHECK(result.error().kind() == ErrorKind::invalid_argument);
  return result.error().message();
}

/// {"a": {"a": … {}}} with that many maps.
std::string nested_maps(std::size_t depth) {
  std::string hex;
  for (std::size_t i = 1; i < depth; ++i) hex += "81a161";
  return hex + "80";
}

}  // namespace

TEST_CASE("Every body comes back as it was") {
  test::Random random(test::test_seed("body round trip"));
  for (int i = 0; i < 2000; ++i) {
    const Body body = test::random_body(random);
    const ByteVector bytes = body.serialize();
    const auto parsed = Body::parse(bytes);
    REQUIRE(parsed.ok());
    CHECK(*parsed == body);
    CHECK(parsed->serialize() == bytes);
  }
}

TEST_CASE("A shortened body is refused at every length") {
  test::Random random(test::test_seed("shortened body"));
  Body body = test::random_body(random);
  body.set_text("last", "x");
  const ByteVector bytes = body.serialize();
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    CHECK(!Body::parse(ByteView(bytes).first(size)).ok());
  }
}

TEST_CASE("No bytes at all are an empty map") {
  const auto body = Body::parse({});
  REQUIRE(body.ok());
  CHECK(*body == Body());
  CHECK(test::to_hex(Body().serialize()) == "80");
}

TEST_CASE("A body is exactly one map") {
  CHECK(mentions(refusal("93010203"), "one map"));
  CHECK(mentions(refusal("2a"), "one map"));
  CHECK(mentions(refusal("a161"), "one map"));
  CHECK(refusal("8000") != "");        // a byte after it
  CHECK(refusal("8101a161") != "");    // a key that is a number
  CHECK(refusal("81c40161c0") != "");  // a key that is a byte string
  CHECK(refusal("c1") != "");          // never used by MessagePack
}

TEST_CASE("A key that appears twice is refused by name") {
  CHECK(mentions(refusal("82a3666f6f01a3666f6f02"), "'foo' appears twice"));
}

TEST_CASE("Extension types are refused") {
  CHECK(mentions(refusal("81a161d40100"), "extension types"));
}

TEST_CASE("A body nests at most 8 deep") {
  CHECK(Body::parse(from_hex(nested_maps(8))).ok());
  CHECK(mentions(refusal(nested_maps(9)), "nests deeper than 8"));
  CHECK(mentions(refusal("81a161" + std::string(2 * 100'000, '9').replace(0, 2, "91")),
                 "nests deeper than 8"));
}

TEST_CASE(
    "An array that claims more values than a body may hold is refused before memory is taken") {
  CHECK(mentions(refusal("81a161ddffffffff"), "too many values"));
  CHECK(mentions(refusal("dfffffffff"), "too many values"));
}

TEST_CASE("A body holds at most 131,072 values") {
  std::vector<std::uint64_t> numbers(protocol::body_elements_max - 1);
  CHECK(Body::parse(Body().set_u64s("a", numbers).serialize()).ok());
  numbers.push_back(0);
  const auto parsed = Body::parse(Body().set_u64s("a", numbers).serialize());
  CHECK(mentions(why(parsed), "too many values"));
}

TEST_CASE("A body of more than 1 MiB is too large") {
  const auto parsed = Body::parse(ByteVector(protocol::body_bytes_max + 1));
  REQUIRE(!parsed.ok());
  CHECK(parsed.error().kind() == ErrorKind::too_large);
}

TEST_CASE("A field of the wrong type or range is named with what it must be") {
  Body body;
  body.set_text("count", "many").set_u64("small", 3).set_i64("minus", -1).set_bytes("bin", {});
  CHECK(why(body.get_u64("count", 0, 16384)) == "field 'count' must be an integer in 0..16384");
  CHECK(why(body.get_u64("small", 4, 9)) == "field 'small' must be an integer in 4..9");
  CHECK(why(body.get_u64("minus", 0, 9)) == "field 'minus' must be an integer in 0..9");
  CHECK(why(body.get_u64("gone", 0, 9)) == "field 'gone' must be an integer in 0..9");
  CHECK(why(body.get_i64("minus", 0, 9)) == "field 'minus' must be an integer in 0..9");
  CHECK(why(body.get_bool("small")) == "field 'small' must be true or false");
  CHECK(why(body.get_double("count")) == "field 'count' must be a number");
  CHECK(why(body.get_text("bin", 9)) == "field 'bin' must be text of at most 9 bytes");
  CHECK(why(body.get_text("count", 3)) == "field 'count' must be text of at most 3 bytes");
  CHECK(why(body.get_bytes("count", 9)) ==
        "field 'count' must be a byte string of at most 9 bytes");
  CHECK(why(body.get_bytes_exact("bin", 32)) == "field 'bin' must be a byte string of 32 bytes");
  CHECK(why(body.get_body("small")) == "field 'small' must be a map");
  CHECK(mentions(why(body.get_u64s("small", 9)), "field 'small' must be an array"));
  CHECK(mentions(why(body.get_texts("small", 9, 9)), "field 'small' must be an array"));
  CHECK(mentions(why(body.get_byte_strings("small", 9, 9)), "field 'small' must be an array"));
  CHECK(mentions(why(body.get_bodies("small", 9)), "field 'small' must be an array"));
  CHECK(mentions(why(body.get_rows("small", 9, 3)), "field 'small' must be an array"));
  CHECK(mentions(why(body.get_indexed_bytes("small", 9, 9, 9)), "field 'small' must be an array"));
}

TEST_CASE("An array is checked item by item") {
  Body body;
  const std::uint64_t numbers[] = {1, 300};
  const std::string texts[] = {"a", "long"};
  body.set_u64s("numbers", numbers).set_texts("texts", texts).set_byte_strings("bins", texts);
  body.set_rows("rows", std::vector<std::vector<std::uint64_t>>{{1, 2, 3}, {4, 5}});
  CHECK(body.get_u64s("numbers", 2).ok());
  CHECK(!body.get_u64s("numbers", 1).ok());
  CHECK(!body.get_u64s("numbers", 2, 299).ok());
  CHECK(!body.get_u64s("texts", 2).ok());
  CHECK(body.get_texts("texts", 2, 4).ok());
  CHECK(!body.get_texts("texts", 2, 3).ok());
  CHECK(!body.get_texts("bins", 2, 4).ok());
  CHECK(body.get_byte_strings("bins", 2, 4).ok());
  CHECK(!body.get_byte_strings("texts", 2, 4).ok());
  CHECK(!body.get_rows("rows", 2, 3).ok());
  CHECK(!body.get_bodies("numbers", 2).ok());
}

TEST_CASE("Indexed byte strings come back; indices must rise") {
  const protocol::IndexedBytes values{{0, {"image"}}, {7, {"a", ""}}};
  const auto parsed = Body::parse(Body().set_indexed_bytes("x", values).serialize());
  REQUIRE(parsed.ok());
  CHECK(*parsed->get_indexed_bytes("x", 7, 2, 5) == values);
  CHECK(!parsed->get_indexed_bytes("x", 6, 2, 5).ok());
  CHECK(!parsed->get_indexed_bytes("x", 7, 1, 5).ok());
  CHECK(!parsed->get_indexed_bytes("x", 7, 2, 4).ok());
  // [[1, [h'61']], [1, [h'61']]]
  const auto repeated = Body::parse(from_hex("81a1789292019 1c40161 9201 91c40161"));
  REQUIRE(repeated.ok());
  CHECK(!repeated->get_indexed_bytes("x", 7, 2, 5).ok());
}

TEST_CASE("A nil field is an absent one") {
  const auto body = Body::parse(from_hex("81a16ec0"));
  REQUIRE(body.ok());
  CHECK(!body->has("n"));
  CHECK(*body->get_u64_or("n", 5, 0, 9) == 5);
  CHECK(*body->get_bool_or("n", true));
  CHECK(*body->get_text_or("n", "x", 9) == "x");
  CHECK(!body->find_u64("n", 0, 9)->has_value());
  CHECK(!body->find_text("n", 9)->has_value());
  CHECK(!body->find_bytes("n", 9)->has_value());
  CHECK(!body->find_bytes_exact("n", 9)->has_value());
}

TEST_CASE("A field that may be absent is still checked where it is there") {
  Body body;
  body.set_u64("n", 10).set_u64("b", 2).set_u64("t", 3).set_text("bin", "x");
  CHECK(!body.get_u64_or("n", 5, 0, 9).ok());
  CHECK(!body.get_bool_or("b", true).ok());
  CHECK(!body.get_text_or("t", "", 9).ok());
  CHECK(!body.find_u64("n", 0, 9).ok());
  CHECK(!body.find_text("t", 9).ok());
  CHECK(!body.find_bytes("bin", 9).ok());
  CHECK(!body.find_bytes_exact("bin", 1).ok());
}

TEST_CASE("Integers keep all 64 bits") {
  Body body;
  body.set_u64("max", UINT64_MAX).set_i64("min", INT64_MIN);
  const auto parsed = Body::parse(body.serialize());
  REQUIRE(parsed.ok());
  CHECK(*parsed->get_u64("max", 0, UINT64_MAX) == UINT64_MAX);
  CHECK(*parsed->get_i64("min", INT64_MIN, INT64_MAX) == INT64_MIN);
  CHECK(!parsed->get_i64("max", INT64_MIN, INT64_MAX).ok());
}

TEST_CASE("JSON shows byte strings as hex and survives text that is not UTF-8") {
  Body body;
  body.set_bytes("hash", from_hex("00ff7a")).set_text("name", "a\xff").set_u64("n", 1);
  const std::string json = body.to_json();
  CHECK(mentions(json, R"("hash":"00ff7a")"));
  CHECK(mentions(json, R"("n":1)"));
}
