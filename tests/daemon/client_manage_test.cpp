// Every other call: what it asks for, and how its answer reads.
#include <doctest/doctest.h>

#include "daemon/protocol/model_body.h"
#include "daemon/protocol/selection_body.h"
#include "tests/daemon/client_fake_peer.h"

using namespace kvstrata;
using namespace kvstrata::test;
using protocol::Body;
using protocol::Verb;

namespace {

/// A client with a namespace, whose peer answers one request of `verb` with `answer`.
struct Exchange {
  Exchange(Verb verb, const Body& answer)
      : peer({[this, verb, answer](Peer& to) {
          to.say_hello();
          to.register_namespace();
          asked = to.expect(verb);
          to.reply(asked, answer);
          to.wait_for_close();
        }}),
        client(std::make_unique<Client>(connect(peer))),
        ns(client->register_model(small_model()).value()) {}

  /// What was asked; the client is gone after.
  const Body& body() {
    client.reset();
    peer.finish();
    return asked.body;
  }

  Message asked;
  FakePeer peer;
  std::unique_ptr<Client> client;
  Namespace ns;
};

const std::vector<Hash256> one_hash(1);
const Selection selection = Selection::of_hashes(one_hash, 2);

Body removal_body() {
  return Body()
      .set_u64("removed_blocks", 4)
      .set_u64("removed_bytes", 4096)
      .set_u64("kept_pinned", 1)
      .set_u64("kept_leased", 2);
}

void check_removal(const Result<Removal>& removal) {
  REQUIRE(removal.ok());
  CHECK(removal->removed_blocks == 4);
  CHECK(removal->removed_bytes == 4096);
  CHECK(removal->kept_pinned == 1);
  CHECK(removal->kept_leased == 2);
}

void check_selects(const Body& body) {
  CHECK(*body.get_u64("ns", 0, 99) == 5);
  CHECK(*body.get_u64("group", 0, 99) == 2);
  CHECK(*body.get_text("by", 9) == "hash");
  CHECK(*body.get_u64("count", 0, 99) == 1);
}

}  // namespace

TEST_CASE("EXISTS tells the prefix and each block") {
  const std::byte present[] = {std::byte{1}, std::byte{0}};
  Exchange exchange(Verb::exists, Body().set_u64("blocks", 1).set_bytes("present", present));
  const auto existing = exchange.client->exists(exchange.ns, selection);
  REQUIRE(existing.ok());
  CHECK(existing->blocks == 1);
  CHECK(existing->each == std::vector<std::uint8_t>{1, 0});
  check_selects(exchange.body());
}

TEST_CASE("GROUP_LOOKUP gives a lease for each member") {
  Body answer;
  answer.set_u64("blocks", 1).set_bodies("leases", std::vector{lease_body(1, 7), lease_body(1, 8)});
  Exchange exchange(Verb::group_lookup, answer);
  const std::vector<GroupMember> members{{exchange.ns, selection}, {exchange.ns, selection}};
  {
    const auto leases = exchange.client->group_lookup(members, Milliseconds(700));
    REQUIRE(leases.ok());
    REQUIRE(leases->size() == 2);
    CHECK((*leases)[1].id() == 8);
  }
  const Body& body = exchange.body();
  CHECK(*body.get_u64("lease_ms", 0, 999) == 700);
  const auto shards = protocol::decode_shards(body, exchange.asked.payload);
  REQUIRE(shards.ok());
  CHECK((*shards)[1].hashes == one_hash);
}

TEST_CASE("FLUSH names a sequence or everything") {
  Exchange exchange(Verb::flush, Body().set_u64("seq", 9));
  CHECK(*exchange.client->flush(8) == 9);
  CHECK(*exchange.body().get_u64("seq", 0, 99) == 8);
  Exchange everything(Verb::flush, Body().set_u64("seq", 9));
  CHECK(*everything.client->flush() == 9);
  CHECK(!everything.body().has("seq"));
}

TEST_CASE("PIN and TTL tell what changed") {
  const Body answer = Body().set_u64("changed", 1).set_u64("missing", 2);
  Exchange pin(Verb::pin, answer);
  const auto pinned = pin.client->pin(pin.ns, selection, true);
  REQUIRE(pinned.ok());
  CHECK(pinned->changed == 1);
  CHECK(pinned->missing == 2);
  CHECK(*pin.body().get_bool("pinned"));
  check_selects(pin.body());
  Exchange ttl(Verb::ttl, answer);
  CHECK(ttl.client->set_ttl(ttl.ns, selection, Milliseconds(55))->changed == 1);
  CHECK(*ttl.body().get_u64("ttl_ms", 0, 99) == 55);
}

TEST_CASE("DELETE takes descendants unless told not to") {
  Exchange all(Verb::remove, removal_body());
  check_removal(all.client->remove(all.ns, selection));
  CHECK(*all.body().get_bool("descendants"));
  check_selects(all.body());
  Exchange one(Verb::remove, removal_body());
  check_removal(one.client->remove(one.ns, selection, false));
  CHECK(!*one.body().get_bool("descendants"));
}

TEST_CASE("CLEAR has four scopes") {
  Exchange tenant(Verb::clear, removal_body());
  check_removal(tenant.client->clear(ClearOptions{.host_only = true, .also_pinned = true}));
  CHECK(*tenant.body().get_text("scope", 9) == "tenant");
  CHECK(*tenant.body().get_text("tier", 9) == "host");
  CHECK(*tenant.body().get_bool("pinned"));

  Exchange model(Verb::clear, removal_body());
  check_removal(model.client->clear({.scope = ClearOptions::Scope::model, .fingerprint = "f"}));
  CHECK(*model.body().get_text("scope", 9) == "model");
  CHECK(*model.body().get_text("fingerprint", 9) == "f");
  CHECK(*model.body().get_text("tier", 9) == "all");

  Exchange ns(Verb::clear, removal_body());
  check_removal(ns.client->clear(ns.ns));
  CHECK(*ns.body().get_text("scope", 9) == "namespace");
  CHECK(*ns.body().get_u64("ns", 0, 99) == 5);

  Exchange prefix(Verb::clear, removal_body());
  check_removal(prefix.client->clear_prefix(prefix.ns, selection));
  CHECK(*prefix.body().get_text("scope", 9) == "prefix");
  check_selects(prefix.body());
}

TEST_CASE("EVICT and EPOCH_BUMP name what they are about") {
  Exchange evict(Verb::evict, removal_body());
  check_removal(evict.client->evict(1'000'000));
  CHECK(*evict.body().get_u64("bytes", 0, 2'000'000) == 1'000'000);
  Exchange bump(Verb::epoch_bump, Body().set_u64("epoch", 3));
  CHECK(*bump.client->bump_weight_epoch("f") == 3);
  CHECK(*bump.body().get_text("fingerprint", 9) == "f");
}

TEST_CASE("STATS and INSPECT come as JSON") {
  Exchange stats(Verb::stats, Body().set_body("host", Body().set_u64("hits", 3)));
  CHECK(*stats.client->stats() == R"({"host":{"hits":3}})");
  Exchange inspect(Verb::inspect, Body().set_bytes("hash", pattern(2, 0)));
  CHECK(*inspect.client->inspect(inspect.ns, one_hash.front(), 2) == R"({"hash":"001f"})");
  check_selects(inspect.body());
}

TEST_CASE("EXPLAIN tells the first field that differs, if one does") {
  Body answer = Body().set_u64("blocks", 1).set_u64("wanted", 3).set_text("reason", "salt differs");
  Exchange exchange(Verb::explain, answer.set_text("field", "salt"));
  const auto explanation = exchange.client->explain(exchange.ns, selection);
  REQUIRE(explanation.ok());
  CHECK(explanation->wanted == 3);
  CHECK(explanation->reason == "salt differs");
  CHECK(explanation->field == "salt");
  CHECK(explanation->detail.empty());
}

TEST_CASE("LIST goes page by page") {
  const std::vector<Body> entries{Body().set_u64("n", 1), Body().set_u64("n", 2)};
  const ByteVector cursor = pattern(34, 1);
  Exchange blocks(Verb::list, Body().set_bodies("blocks", entries).set_bytes("next", cursor));
  const auto page = blocks.client->list_blocks(blocks.ns, 2, cursor);
  REQUIRE(page.ok());
  CHECK(page->entries == std::vector<std::string>{R"({"n":1})", R"({"n":2})"});
  CHECK(page->next == cursor);
  CHECK(*blocks.body().get_u64("limit", 0, 9) == 2);
  CHECK(std::ranges::equal(*blocks.body().get_bytes("after", 99), cursor));
  Exchange namespaces(Verb::list, Body().set_bodies("namespaces", entries));
  const auto all = namespaces.client->list_namespaces();
  REQUIRE(all.ok());
  CHECK(all->entries.size() == 2);
  CHECK(!all->next);
}

TEST_CASE("A namespace is opened by its id if the daemon lists it") {
  Body entry;
  protocol::encode_register(small_model(), entry);
  entry.set_u64("ns", 8).set_bytes("hash", pattern(32, 3)).set_u64("epoch", 2);
  Exchange exchange(Verb::list, Body().set_bodies("namespaces", std::vector{entry}));
  const auto opened = exchange.client->open_namespace(8);
  REQUIRE(opened.ok());
  CHECK(opened->id() == 8);
  CHECK(opened->weight_epoch() == 2);
  CHECK(opened->block_bytes() == small_block_bytes);
  CHECK(std::ranges::equal(opened->hash().bytes, pattern(32, 3)));
  Exchange other(Verb::list, Body().set_bodies("namespaces", std::vector{entry}));
  CHECK(other.client->open_namespace(9).error().kind() == ErrorKind::not_found);
}

TEST_CASE("VERIFY tells how many blocks are bad, and which") {
  const std::string bad[] = {"00ff"};
  Body answer = Body().set_u64("checked", 10).set_u64("bad", 1).set_u64("bytes", 12345);
  Exchange exchange(Verb::verify, answer.set_texts("bad_keys", bad));
  const auto verification = exchange.client->verify(exchange.ns, 100);
  REQUIRE(verification.ok());
  CHECK(verification->checked == 10);
  CHECK(verification->bad == 1);
  CHECK(verification->bytes == 12345);
  CHECK(verification->bad_keys == std::vector<std::string>{"00ff"});
  CHECK(!verification->next);
}

TEST_CASE("An answer without its fields is an error that names one") {
  Exchange exchange(Verb::exists, Body());
  const auto existing = exchange.client->exists(exchange.ns, selection);
  REQUIRE(!existing.ok());
  CHECK(existing.error().message().find("'blocks'") != std::string::npos);
}
