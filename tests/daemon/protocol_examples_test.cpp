// The worked examples of doc/wire-protocol.md, reproduced.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "daemon/client/hello.h"
#include "daemon/protocol/error_body.h"
#include "daemon/protocol/header.h"
#include "daemon/protocol/selection_body.h"
#include "tests/daemon/protocol_kit.h"

using namespace kvstrata;
using namespace kvstrata::protocol;

namespace {

/// The block of the page that opens with "```hex NAME".
std::string hex_block(const std::string& name) {
  std::ifstream file(KVSTRATA_SOURCE_ROOT "/doc/wire-protocol.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::string fence = "```hex " + name + "\n";
  const std::size_t start = page.find(fence);
  REQUIRE(start != std::string::npos);
  const std::size_t from = start + fence.size();
  return page.substr(from, page.find("```", from) - from);
}

/// 16 bytes a line.
std::string lines_of(ByteView bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += test::to_hex(bytes.subspan(i, 1));
    text += i % 16 == 15 || i + 1 == bytes.size() ? '\n' : ' ';
  }
  return text;
}

std::string message(Header header, const Body& body, const ByteVector& payload = {}) {
  const ByteVector body_bytes = body.serialize();
  header.body_bytes = static_cast<std::uint32_t>(body_bytes.size());
  header.payload_bytes = payload.size();
  const HeaderBytes header_bytes = serialize(header);
  ByteVector bytes(header_bytes.begin(), header_bytes.end());
  bytes.insert(bytes.end(), body_bytes.begin(), body_bytes.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return lines_of(bytes);
}

Body hello_reply() {
  Body limits;
  limits.set_u64("body", body_bytes_max).set_u64("payload", payload_bytes_max);
  limits.set_u64("blocks", blocks_per_request_max).set_u64("in_flight", requests_in_flight_max);
  Body body;
  body.set_u64("protocol", 1).set_text("server", "kvstratad/0.1.0").set_text("tenant", "default");
  body.set_bool("admin", false).set_text("store", "5eed").set_u64("lease_ms", 10'000);
  body.set_bytes("boot", test::from_hex("000102030405060708090a0b0c0d0e0f"));
  return body.set_body("limits", limits);
}

}  // namespace

TEST_CASE("The page's HELLO is what the client says") {
  const Body body = client::hello_body({.name = "demo/1"});
  CHECK(message({.verb = Verb::hello, .request_id = 1}, body) == hex_block("hello-request"));
}

TEST_CASE("The page's reply to HELLO is what the client reads") {
  const Header header{.verb = Verb::hello, .kind = MessageKind::reply, .request_id = 1};
  CHECK(message(header, hello_reply()) == hex_block("hello-reply"));
  const ByteVector bytes = test::from_hex(hex_block("hello-reply"));
  const auto body = Body::parse(ByteView(bytes).subspan(header_bytes));
  REQUIRE(body.ok());
  const auto info = client::decode_hello_reply(*body);
  REQUIRE(info.ok());
  CHECK(info->tenant == "default");
  CHECK(info->boot[15] == std::byte{15});
}

TEST_CASE("The page's LOOKUP is what a selection by hash encodes to") {
  std::vector<Hash256> hashes(2);
  hashes[0].bytes.fill(std::byte{0xaa});
  hashes[1].bytes.fill(std::byte{0xbb});
  Body body;
  ByteVector payload;
  REQUIRE(encode_selection({.ns = 3, .hashes = hashes}, body, payload).ok());
  body.set_u64("lease_ms", 10'000);
  const Header header{.verb = Verb::lookup, .request_id = 2};
  CHECK(message(header, body, payload) == hex_block("lookup-by-hash"));
}

TEST_CASE("The page's error reply is what an Error encodes to, and reads back as one") {
  const Error error(ErrorKind::epoch_changed, "register again");
  const Header header{
      .verb = Verb::lookup, .kind = MessageKind::reply, .status = 15, .request_id = 2};
  CHECK(message(header, error_body(error)) == hex_block("error-reply"));
  const Error decoded = decode_error(15, error_body(error));
  CHECK(decoded.kind() == error.kind());
  CHECK(decoded.message() == error.message());
}

TEST_CASE("A status of a later version is an internal error with what is known of it") {
  CHECK(kind_of_status(21) == ErrorKind::internal);
  CHECK(kind_of_status(22) == ErrorKind::internal);
  const Error error = decode_error(900, Body());
  CHECK(error.kind() == ErrorKind::internal);
  CHECK(error.message().find("900") != std::string::npos);
}

TEST_CASE("An error message over its limit is cut, not refused") {
  const Body body = error_body(Error(ErrorKind::io, std::string(10'000, 'x')));
  CHECK(body.get_text("message", error_message_bytes_max)->size() == error_message_bytes_max);
}
