// Blocks that come in the message: checked, in place, and never beyond their destination.
#include <doctest/doctest.h>

#include "daemon/protocol/header.h"
#include "tests/daemon/client_fake_peer.h"

using namespace kvstrata;
using namespace kvstrata::test;
using protocol::BlockRef;
using protocol::Body;
using protocol::Verb;

namespace {

const std::vector<std::uint32_t> three_blocks(48);

ByteVector joined(const std::vector<ByteVector>& parts) {
  ByteVector all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<BlockRef> refs_of(const std::vector<ByteVector>& blocks) {
  std::vector<BlockRef> refs;
  for (const auto& block : blocks) refs.push_back(inline_ref(block));
  return refs;
}

/// A peer that answers one GET with this body and payload; what was asked goes to `asked`.
FakePeer::Script serve_get(const Body& body, const ByteVector& payload, Body* asked = nullptr) {
  return [=](Peer& to) {
    to.say_hello();
    to.register_namespace();
    const Message get = to.expect(Verb::get);
    if (asked != nullptr) *asked = get.body;
    to.reply(get, body, payload);
    to.wait_for_close();
  };
}

Client connect_inline(const FakePeer& peer) {
  return connect(peer, Milliseconds(10'000), false);
}

}  // namespace

TEST_CASE("Inline blocks become views of the client's own memory") {
  const std::vector<ByteVector> blocks{pattern(1024, 1), pattern(1024, 2), pattern(1024, 3)};
  Body asked;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    const Message get = to.expect(Verb::get);
    asked = get.body;
    to.reply(get, blocks_body(refs_of(blocks)), joined(blocks));
    to.expect(Verb::release);
  }});
  Client client = connect_inline(peer);
  CHECK(!client.server().shared_memory);
  const auto ns = client.register_model(small_model());
  {
    const auto fetched = client.get(*ns, Selection::of_tokens(three_blocks));
    REQUIRE(fetched.ok());
    REQUIRE(fetched->blocks.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(std::ranges::equal(fetched->blocks[i].bytes(), blocks[i]));
      CHECK(fetched->blocks[i].valid());
      CHECK(fetched->blocks[i].verify().ok());
    }
  }
  peer.finish();
  CHECK(*asked.get_bool("inline"));
  CHECK(*asked.get_bool("prefix"));
  CHECK(*asked.get_u64("ns", 0, 99) == 5);
  CHECK(*asked.get_u64("count", 0, 99) == 48);
}

TEST_CASE("Large blocks are received in place, in any order of lengths") {
  const std::vector<ByteVector> blocks{pattern(3'000'000, 1), {}, pattern(17, 2)};
  Body asked;
  FakePeer peer(
      {serve_get(blocks_body(refs_of(blocks)).set_u64("lease", 0), joined(blocks), &asked)});
  Client client = connect_inline(peer);
  const auto ns = client.register_model(small_model());
  ByteVector first(3'000'000), second(5), third(17, std::byte{1});
  const MutableBytes outs[] = {first, second, third};
  const auto status = client.get_into(*ns, Selection::of_tokens(three_blocks), outs);
  REQUIRE(status.ok());
  REQUIRE(status->size() == 3);
  for (const auto& each : *status) CHECK(each.ok());
  CHECK(first == blocks[0]);
  CHECK(third == blocks[2]);
  CHECK(!asked.has("lease_ms"));  // no lease is needed for bytes that are here
}

TEST_CASE("A block that does not fit its destination leaves the others alone") {
  const std::vector<ByteVector> blocks{pattern(1000, 1), pattern(1000, 2)};
  FakePeer peer({serve_get(blocks_body(refs_of(blocks)), joined(blocks))});
  Client client = connect_inline(peer);
  const auto ns = client.register_model(small_model());
  ByteVector small(999, std::byte{7}), fitting(1000), missing(10);
  const MutableBytes outs[] = {small, fitting, missing};
  const auto status = client.get_into(*ns, Selection::of_tokens(three_blocks), outs);
  REQUIRE(status.ok());
  CHECK((*status)[0].error().kind() == ErrorKind::too_large);
  CHECK((*status)[1].ok());
  CHECK((*status)[2].error().kind() == ErrorKind::not_found);
  CHECK(small == ByteVector(999, std::byte{7}));
  CHECK(fitting == blocks[1]);
}

TEST_CASE("A block that does not have its checksum is corrupt, alone") {
  const std::vector<ByteVector> blocks{pattern(1000, 1), pattern(1000, 2)};
  ByteVector payload = joined(blocks);
  payload[1500] ^= std::byte{1};
  FakePeer peer({serve_get(blocks_body(refs_of(blocks)), payload),
                 serve_get(blocks_body(refs_of(blocks)), payload)});
  {
    Client client = connect_inline(peer);
    const auto ns = client.register_model(small_model());
    const auto fetched = client.get(*ns, Selection::of_tokens(three_blocks));
    REQUIRE(fetched.ok());
    CHECK(fetched->blocks[0].valid());
    CHECK(fetched->blocks[1].status().error().kind() == ErrorKind::corrupt);
  }
  Client client = connect_inline(peer);
  const auto ns = client.register_model(small_model());
  ByteVector first(1000), second(1000), third(1000);
  const MutableBytes outs[] = {first, second, third};
  const auto status = client.get_into(*ns, Selection::of_tokens(three_blocks), outs);
  REQUIRE(status.ok());
  CHECK((*status)[0].ok());
  CHECK((*status)[1].error().kind() == ErrorKind::corrupt);
}

TEST_CASE("A payload of another length than its blocks ends the connection") {
  const std::vector<ByteVector> blocks{pattern(1000, 1)};
  for (const std::size_t bytes : {0, 999, 1001}) {
    CAPTURE(bytes);
    FakePeer peer({serve_get(blocks_body(refs_of(blocks)), pattern(bytes, 1))});
    Client client = connect_inline(peer);
    const auto ns = client.register_model(small_model());
    const auto fetched = client.get(*ns, Selection::of_tokens(three_blocks));
    REQUIRE(!fetched.ok());
    CHECK(fetched.error().kind() == ErrorKind::protocol);
    CHECK(client.poll_fd() == -1);
  }
}

TEST_CASE("A reply with more blocks than were asked for ends the connection") {
  const std::vector<ByteVector> blocks(4, pattern(10, 1));
  FakePeer peer({serve_get(blocks_body(refs_of(blocks)), joined(blocks))});
  Client client = connect_inline(peer);
  const auto ns = client.register_model(small_model());
  const auto fetched = client.get(*ns, Selection::of_tokens(three_blocks));
  REQUIRE(!fetched.ok());
  CHECK(fetched.error().kind() == ErrorKind::protocol);
}

TEST_CASE("A block of more than 1 GiB is not believed") {
  BlockRef ref;
  ref.bytes = block_bytes_max + 1;
  FakePeer peer({serve_get(blocks_body({ref}), {})});
  Client client = connect_inline(peer);
  const auto ns = client.register_model(small_model());
  CHECK(client.get(*ns, Selection::of_tokens(three_blocks)).error().kind() == ErrorKind::protocol);
}

TEST_CASE("A deadline within a payload ends the connection: its memory is the caller's again") {
  const std::vector<ByteVector> blocks{pattern(1'000'000, 1)};
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    const Message get = to.expect(Verb::get);
    protocol::Header header{.verb = Verb::get,
                            .kind = protocol::MessageKind::reply,
                            .request_id = get.header.request_id};
    const ByteVector body = blocks_body(refs_of(blocks)).serialize();
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    header.payload_bytes = 1'000'000;
    to.send_bytes(protocol::serialize(header));
    to.send_bytes(body);
    to.send_bytes(ByteView(blocks[0]).first(500'000));
    CHECK(to.wait_for_close());
  }});
  Client client = connect(peer, Milliseconds(300), false);
  const auto ns = client.register_model(small_model());
  ByteVector out(1'000'000), second, third;
  const MutableBytes outs[] = {out, second, third};
  const auto status = client.get_into(*ns, Selection::of_tokens(three_blocks), outs);
  REQUIRE(!status.ok());
  CHECK(status.error().kind() == ErrorKind::deadline_exceeded);
  CHECK(client.poll_fd() == -1);
}

TEST_CASE("An opaque value comes as a view or into place, or is not found") {
  const ByteVector value = pattern(300'000, 4);
  const std::string key = "k1";
  std::vector<ByteVector> asked;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    for (int i = 0; i < 3; ++i) {
      const Message get = to.expect(Verb::get);
      asked.push_back(get.payload);
      to.reply(get, blocks_body({inline_ref(value)}).set_u64("lease", 0), value);
    }
    const Message get = to.expect(Verb::get);
    const std::byte missing{2};
    to.reply(get, blocks_body({BlockRef{}}).set_bytes("status", {&missing, 1}).set_u64("lease", 0));
  }});
  Client client = connect_inline(peer);
  NamespaceSpec spec;
  spec.model.fingerprint = "opaque";
  const auto ns = client.register_model(spec);
  REQUIRE(ns.ok());
  CHECK(ns->block_bytes() == 0);
  const auto fetched = client.get_value(*ns, key);
  REQUIRE(fetched.ok());
  CHECK(std::ranges::equal(fetched->blocks.front().bytes(), value));
  ByteVector out(400'000), small(10);
  CHECK(*client.get_value_into(*ns, key, out) == value.size());
  CHECK(std::equal(value.begin(), value.end(), out.begin()));
  CHECK(client.get_value_into(*ns, key, small).error().kind() == ErrorKind::too_large);
  CHECK(client.get_value(*ns, key).error().kind() == ErrorKind::not_found);
  peer.finish();
  REQUIRE(asked.size() == 3);
  CHECK(asked[0] == ByteVector{std::byte{2}, std::byte{0}, std::byte{'k'}, std::byte{'1'}});
}
