// Removals, puts and look-ups that meet at the worst moment, forced by named points.
#include <doctest/doctest.h>

#include "engine_test_kit.h"
#include "storage/device/faulty_device.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

/// Holds the first thread that reaches a named point, once armed, until it is opened.
class Gate {
 public:
  Gate(TestLoop& loop, std::string_view point) : state_(std::make_shared<State>(loop, point)) {}
  ~Gate() { open(); }

  std::function<void(std::string_view)> hook() {
    return [state = state_](std::string_view point) {
      if (point != state->point) return;
      std::unique_lock lock(state->mutex);
      if (!std::exchange(state->armed, false)) return;
      state->reached = true;
      state->loop.post([] {});  // for wait_until_reached
      state->opened.wait(lock, [&] { return state->open; });
    };
  }
  void arm() {
    const std::lock_guard lock(state_->mutex);
    state_->armed = true;
  }
  void wait_until_reached() {
    state_->loop.run_until([this] {
      const std::lock_guard lock(state_->mutex);
      return state_->reached;
    });
  }
  void open() {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->opened.notify_all();
  }

 private:
  // Shared with the hook: the engine's threads pass points until it ends, which may be later.
  struct State {
    State(TestLoop& test_loop, std::string_view name) : loop(test_loop), point(name) {}
    TestLoop& loop;
    const std::string point;
    std::mutex mutex;
    std::condition_variable opened;
    bool armed = false, reached = false, open = false;
  };
  std::shared_ptr<State> state_;
};

ClearRequest of_namespace(NamespaceId ns) {
  ClearRequest request;
  request.scope = ClearScope::ns;
  request.ns = ns;
  return request;
}

Removal remove_by(EngineKit& kit, bool by_clear, NamespaceId ns,
                  const std::vector<std::uint32_t>& tokens) {
  const auto removal = by_clear ? kit.await<Removal>([&](auto done) {
    kit.engine().clear(kit.caller(), of_namespace(ns), std::move(done));
  })
                                : kit.remove(kit.caller(), ns, tokens);
  REQUIRE(removal.ok());
  return *removal;
}

/// An engine that knows its blocks from the index alone, stopped after it read that.
struct Meeting {
  EngineKit kit;
  Gate gate{kit.loop(), "after-index-read"};
  Sequence16 sequence = make_sequence(1, 3);
  NamespaceId ns;

  Meeting() {
    kit.options().at_point = gate.hook();
    kit.options().codec = "raw";
    kit.restart();
    ns = kit.open_namespace(small_model(), kit.caller()).ns;
    REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
    kit.restart();
    gate.arm();
  }
  std::size_t found() {
    const auto grant = kit.lookup(kit.caller(), ns, sequence.tokens);
    REQUIRE(grant.ok());
    return grant->tiers.size();
  }
};

}  // namespace

TEST_CASE("A look-up that read the index before a removal does not bring the blocks back") {
  for (const bool by_clear : {false, true}) {
    Meeting meeting;
    EngineKit& kit = meeting.kit;
    std::optional<Result<LeaseGrant>> found;
    kit.engine().lookup(kit.caller(2), by_tokens(meeting.ns, meeting.sequence.tokens),
                        Milliseconds(10'000), [&](Result<LeaseGrant> grant) { found = grant; });
    meeting.gate.wait_until_reached();
    CHECK(remove_by(kit, by_clear, meeting.ns, meeting.sequence.tokens).removed_blocks == 3);
    meeting.gate.open();
    kit.loop().run_until([&] { return found.has_value(); });
    CHECK((*found)->tiers.empty());
    CHECK(meeting.found() == 0);
  }
}

TEST_CASE("A look-up before the removal of a prefix does not bring back what continues it") {
  Meeting meeting;
  EngineKit& kit = meeting.kit;
  std::optional<Result<LeaseGrant>> found;
  kit.engine().lookup(kit.caller(2), by_tokens(meeting.ns, meeting.sequence.tokens),
                      Milliseconds(10'000), [&](Result<LeaseGrant> grant) { found = grant; });
  meeting.gate.wait_until_reached();
  const auto first =
      std::vector(meeting.sequence.tokens.begin(), meeting.sequence.tokens.begin() + 16);
  CHECK(remove_by(kit, false, meeting.ns, first).removed_blocks == 3);
  meeting.gate.open();
  kit.loop().run_until([&] { return found.has_value(); });
  // The first block again: what continued it must not come with it.
  REQUIRE(kit.put(kit.caller(), meeting.ns, first, {meeting.sequence.blocks[0]}).ok());
  CHECK(meeting.found() == 1);
}

TEST_CASE("A put that read the index before a removal is stored, and survives a restart") {
  for (const bool by_clear : {false, true}) {
    Meeting meeting;
    EngineKit& kit = meeting.kit;
    NewBlocks asked;
    asked.ns = meeting.ns;
    asked.tokens = meeting.sequence.tokens;
    asked.durable = true;
    auto values = std::make_shared<ByteVector>();
    for (const ByteVector& block : meeting.sequence.blocks) {
      values->insert(values->end(), block.begin(), block.end());
    }
    std::optional<Result<Committed>> stored;
    kit.engine().put(kit.caller(2), asked, values, 0,
                     [&](Result<Committed> committed) { stored = std::move(committed); });
    meeting.gate.wait_until_reached();
    remove_by(kit, by_clear, meeting.ns, meeting.sequence.tokens);
    meeting.gate.open();
    kit.loop().run_until([&] { return stored.has_value(); });
    REQUIRE(stored->ok());
    CHECK((*stored)->status == std::vector<std::uint8_t>(3, 0));
    kit.restart();
    CHECK(meeting.found() == 3);
  }
}

TEST_CASE("FLUSH waits until a block that was removed while it was written has left the disk") {
  EngineKit kit;
  Gate gate(kit.loop(), "after-data-sync");
  kit.options().store.at_point = gate.hook();
  kit.options().codec = "raw";
  kit.restart();
  const auto sequence = make_sequence(1, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  gate.arm();
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  gate.wait_until_reached();
  std::optional<Result<Removal>> removed;
  kit.engine().remove(kit.caller(), by_tokens(ns, sequence.tokens), true,
                      [&](Result<Removal> removal) { removed = removal; });
  std::optional<std::uint64_t> left;
  kit.engine().flush(kit.caller(), std::nullopt, [&](const Result<Sequence>& flushed) {
    CHECK(flushed.ok());
    left = kit.engine().stats(kit.caller()).store.blocks;
  });
  gate.open();
  kit.loop().run_until([&] { return removed && left; });
  CHECK(*left == 0);
}

TEST_CASE("A put over a block that has expired here is durable, though the index still has that") {
  EngineKit kit;
  kit.clock().advance(Milliseconds(std::chrono::years(100)));  // the store's clock is behind
  const auto before = make_sequence(1, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, before.tokens, before.blocks, true).ok());
  REQUIRE(kit.await<Changed>([&](auto done) {
               kit.engine().set_ttl(kit.caller(), by_tokens(ns, before.tokens), 1, std::move(done));
             })
              .ok());
  kit.clock().advance(Milliseconds(10));
  const auto after = make_sequence(2, 1);
  const auto stored = kit.put(kit.caller(), ns, before.tokens, after.blocks, true);
  REQUIRE_MESSAGE(stored.ok(), (stored ? "" : stored.error().message()));
  kit.restart();
  const auto loaded = kit.get(kit.caller(), ns, before.tokens);
  REQUIRE(loaded.ok());
  REQUIRE(loaded->blocks.size() == 1);
  CHECK(bytes_of_block(loaded->blocks[0]) == after.blocks[0]);
}

TEST_CASE("A durable put of a block whose record was reclaimed writes it again") {
  EngineKit kit(32_MiB, 64_MiB);
  const auto sequence = make_sequence(1, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  const auto committed = kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true);
  REQUIRE(committed.ok());
  // A lease keeps the host copy, not the record.
  REQUIRE(kit.lookup(kit.caller(), ns, sequence.tokens).ok());
  const auto is_on_disk = [&] {
    const auto details = kit.await<BlockDetails>([&](auto done) {
      kit.engine().inspect(kit.caller(), {ns, committed->hashes[0], 0}, std::move(done));
    });
    REQUIRE(details.ok());
    return details->on_disk;
  };
  NamespaceSpec values;
  values.model.fingerprint = "values";
  values.tenant = "default";
  const auto filler = kit.open_namespace(values, kit.caller()).ns;
  for (int i = 0; is_on_disk(); ++i) {
    REQUIRE(i < 300);
    NewBlocks asked;
    asked.ns = filler;
    asked.by = SelectBy::key;
    asked.keys = {"filler" + std::to_string(i)};
    asked.lengths = {1_MiB};
    asked.durable = true;
    const auto value = std::make_shared<ByteVector>(1_MiB, static_cast<std::byte>(i));
    store_le(const_cast<ByteVector&>(*value).data(), i);
    REQUIRE(kit.await<Committed>([&](auto done) {
                 kit.engine().put(kit.caller(), asked, value, 0, std::move(done));
               })
                .ok());
  }
  const auto again = kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true);
  REQUIRE(again.ok());
  CHECK(again->status[0] == static_cast<std::uint8_t>(ErrorKind::exists));
  kit.restart();
  CHECK(kit.lookup(kit.caller(), ns, sequence.tokens)->tiers.size() == 1);
}

TEST_CASE("PIN does not take the failure away that the next FLUSH must tell of") {
  EngineKit kit;
  const auto script = std::make_shared<storage::FaultScript>();
  kit.options().store.wrap_device = [script](std::unique_ptr<storage::Device> device) {
    return std::make_unique<storage::FaultyDevice>(std::move(device), script);
  };
  kit.options().codec = "raw";
  kit.restart();
  const auto sequence = make_sequence(1, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  script->add({.target = storage::FaultTarget::data_sync});
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  const auto pinned = kit.await<Changed>([&](auto done) {
    kit.engine().pin(kit.caller(), by_tokens(ns, sequence.tokens), true, std::move(done));
  });
  REQUIRE_FALSE(pinned.ok());
  CHECK(pinned.error().message().find("could not be written") != std::string::npos);
  CHECK_FALSE(kit.flush(kit.caller()).ok());
}

TEST_CASE("A durable put does not wait for older blocks that are admitted while it waits") {
  EngineKit kit;
  Gate first_group(kit.loop(), "after-data-sync");
  Gate second_group(kit.loop(), "after-data-sync");
  kit.options().store.at_point = [hook = second_group.hook(),
                                  then = first_group.hook()](std::string_view point) {
    hook(point);
    then(point);
  };
  kit.options().admission = "second-use";
  kit.options().admit_all_until_full = false;
  kit.options().codec = "raw";
  kit.restart();
  const auto old = make_sequence(1, 1);
  const auto durable = make_sequence(2, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, old.tokens, old.blocks).ok());
  first_group.arm();
  NewBlocks asked;
  asked.ns = ns;
  asked.tokens = durable.tokens;
  asked.durable = true;
  std::optional<Result<Committed>> stored;
  kit.engine().put(kit.caller(), asked, std::make_shared<const ByteVector>(durable.blocks[0]), 0,
                   [&](Result<Committed> committed) { stored = std::move(committed); });
  first_group.wait_until_reached();
  REQUIRE(kit.lookup(kit.caller(), ns, old.tokens).ok());
  CHECK(kit.engine().stats(kit.caller()).gauges.at("dirty_blocks") == 2);
  second_group.arm();
  first_group.open();
  kit.loop().run_until([&] { return stored.has_value(); });
  CHECK(stored->ok());
  CHECK(kit.engine().stats(kit.caller()).gauges.at("dirty_blocks") == 1);
}

TEST_CASE("An older block that is admitted and removed at once does not end the wait for others") {
  EngineKit kit;
  Gate gate(kit.loop(), "after-data-sync");
  kit.options().store.at_point = gate.hook();
  kit.options().admission = "second-use";
  kit.options().admit_all_until_full = false;
  kit.options().codec = "raw";
  kit.restart();
  const auto old = make_sequence(1, 1);
  const auto durable = make_sequence(2, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, old.tokens, old.blocks).ok());
  gate.arm();
  NewBlocks asked;
  asked.ns = ns;
  asked.tokens = durable.tokens;
  asked.durable = true;
  std::optional<Result<Committed>> stored;
  kit.engine().put(kit.caller(), asked, std::make_shared<const ByteVector>(durable.blocks[0]), 0,
                   [&](Result<Committed> committed) { stored = std::move(committed); });
  gate.wait_until_reached();
  // Nothing runs in between: the block is given up before anything of it reaches the store.
  kit.engine().lookup(kit.caller(), by_tokens(ns, old.tokens), Milliseconds(1000),
                      [](const Result<LeaseGrant>& grant) { CHECK(grant.ok()); });
  std::optional<Result<Removal>> removed;
  kit.engine().remove(kit.caller(), by_tokens(ns, old.tokens), true,
                      [&](Result<Removal> removal) { removed = removal; });
  const auto dirty = [&] { return kit.engine().stats(kit.caller()).gauges.at("dirty_blocks"); };
  CHECK(dirty() == 2);
  kit.loop().run_until([&] { return dirty() == 1; });
  CHECK_FALSE(stored.has_value());
  gate.open();
  kit.loop().run_until([&] { return stored && removed; });
  CHECK(stored->ok());
}
