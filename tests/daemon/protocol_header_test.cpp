#include <doctest/doctest.h>

#include "daemon/protocol/header.h"
#include "tests/daemon/protocol_kit.h"

using namespace kvstrata;
using namespace kvstrata::protocol;

namespace {

Header good_request() {
  return {.verb = Verb::lookup, .request_id = 7, .body_bytes = 10, .payload_bytes = 64};
}

ErrorKind kind_of(const Header& header) {
  const auto parsed = parse_header(serialize(header));
  REQUIRE(!parsed.ok());
  return parsed.error().kind();
}

}  // namespace

TEST_CASE("The bytes of a header never change") {
  const Header header{.verb = Verb::get,
                      .kind = MessageKind::reply,
                      .status = 14,
                      .request_id = 0x0102030405060708,
                      .body_bytes = 0x000a0b0c,
                      .descriptors = 2,
                      .payload_bytes = 0x3fffffff};
  CHECK(test::to_hex(serialize(header)) ==
        "4b5653310f010e00"
        "0807060504030201"
        "0c0b0a0002000000"
        "ffffff3f00000000");
}

TEST_CASE("A header at every limit is accepted") {
  Header header = good_request();
  header.body_bytes = body_bytes_max;
  header.payload_bytes = payload_bytes_max;
  header.descriptors = descriptors_per_message_max;
  const auto parsed = parse_header(serialize(header));
  REQUIRE(parsed.ok());
  CHECK(parsed->body_bytes == body_bytes_max);
  CHECK(parsed->payload_bytes == payload_bytes_max);
}

TEST_CASE("A length over its limit is too large") {
  Header body = good_request();
  body.body_bytes = body_bytes_max + 1;
  CHECK(kind_of(body) == ErrorKind::too_large);
  Header payload = good_request();
  payload.payload_bytes = payload_bytes_max + 1;
  CHECK(kind_of(payload) == ErrorKind::too_large);
  Header descriptors = good_request();
  descriptors.descriptors = descriptors_per_message_max + 1;
  CHECK(kind_of(descriptors) == ErrorKind::too_large);
}

TEST_CASE("Bytes that are not protocol 1 are named so") {
  Header header = good_request();
  SUBCASE("another magic") {
    header.magic ^= 1;
  }
  SUBCASE("verb 0") {
    header.verb = Verb{0};
  }
  SUBCASE("a verb after the last") {
    header.verb = Verb{verb_max + 1};
  }
  SUBCASE("an unknown kind") {
    header.kind = MessageKind{3};
  }
  SUBCASE("a reserved field in use") {
    header.reserved = 1;
  }
  SUBCASE("a request without an id") {
    header.request_id = 0;
  }
  SUBCASE("a request with a status") {
    header.status = 1;
  }
  SUBCASE("a request of verb event") {
    header.verb = Verb::event;
  }
  SUBCASE("an event with an id") {
    header.kind = MessageKind::event;
    header.verb = Verb::event;
  }
  SUBCASE("an event of another verb") {
    header.kind = MessageKind::event;
    header.request_id = 0;
  }
  CHECK(kind_of(header) == ErrorKind::protocol);
}

TEST_CASE("A header that is refused still tells its request id") {
  Header header = good_request();
  header.verb = Verb{200};
  const HeaderBytes bytes = serialize(header);
  CHECK(!parse_header(bytes).ok());
  CHECK(load_header(bytes).request_id == 7);
}

TEST_CASE("A header has 32 bytes") {
  const HeaderBytes bytes = serialize(good_request());
  CHECK(!parse_header(ByteView(bytes).first(31)).ok());
  CHECK(parse_header(bytes).ok());
}

TEST_CASE("Every verb has a name of its own") {
  std::vector<std::string_view> names;
  for (unsigned verb = 1; verb <= verb_max; ++verb) {
    const auto name = to_string(static_cast<Verb>(verb));
    CHECK(name != "unknown verb");
    for (const auto other : names) CHECK(other != name);
    names.push_back(name);
  }
  CHECK(to_string(Verb{0}) == "unknown verb");
}
