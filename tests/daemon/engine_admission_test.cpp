// Which blocks the engine writes to disk under "second-use".
#include <doctest/doctest.h>

#include <algorithm>

#include "daemon/engine/admission.h"
#include "daemon/engine/disk_gate.h"
#include "engine_test_kit.h"
#include "storage/device/faulty_device.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

/// An engine that writes blocks at their second use, from the first block on.
struct SecondUse : EngineKit {
  explicit SecondUse(std::uint64_t host_bytes = 32_MiB) : EngineKit(host_bytes) {
    options().admission = "second-use";
    options().admit_all_until_full = false;
    options().codec = "raw";
    options().worker_threads = 1;  // work is done in the order in which it was asked for
    restart();
    ns = open_namespace(small_model(), caller()).ns;
  }

  Committed store(const Sequence16& sequence, bool durable = false) {
    auto committed = put(caller(), ns, sequence.tokens, sequence.blocks, durable);
    REQUIRE(committed.ok());
    return *committed;
  }
  std::uint64_t gauge(const char* name) { return engine().stats(caller()).gauges.at(name); }
  void write_what_is_admitted() {
    loop().run_until([&] { return gauge("dirty_blocks") == 0; });
  }
  /// As after a SIGKILL, once what was admitted is on disk.
  void die() {
    write_what_is_admitted();
    restart();
  }
  std::size_t present(const Sequence16& sequence) {
    const auto each = exists(caller(), ns, sequence.tokens);
    return static_cast<std::size_t>(std::count(each.begin(), each.end(), 1));
  }
  void evict_all() {
    write_what_is_admitted();
    REQUIRE(
        await<Removal>([&](auto done) { engine().evict(caller(), 1_GiB, std::move(done)); }).ok());
  }
  void clear(const ClearRequest& request) {
    REQUIRE(await<Removal>([&](auto done) {
              engine().clear(caller(), request, std::move(done));
            }).ok());
  }
  void pin(const Sequence16& sequence, bool pinned) {
    REQUIRE(await<Changed>([&](auto done) {
              engine().pin(caller(), by_tokens(ns, sequence.tokens), pinned, std::move(done));
            }).ok());
  }
  Sequence flush_up_to(Sequence sequence, const Caller& by) {
    const auto flushed =
        await<Sequence>([&](auto done) { engine().flush(by, sequence, std::move(done)); });
    REQUIRE(flushed.ok());
    return *flushed;
  }

  NamespaceId ns;
};

Sequence16 first_blocks(const Sequence16& sequence, std::size_t blocks) {
  Sequence16 part = sequence;
  part.tokens.resize(blocks * 16);
  part.blocks.resize(blocks);
  return part;
}

/// The put of the blocks from `first` on, which continue those before.
NewBlocks continuing(NamespaceId ns, const Sequence16& sequence, std::size_t first,
                     const Hash256& parent) {
  NewBlocks asked;
  asked.ns = ns;
  asked.tokens.assign(sequence.tokens.begin() + static_cast<std::ptrdiff_t>(first * 16),
                      sequence.tokens.end());
  asked.parent = parent;
  return asked;
}

}  // namespace

TEST_CASE("By default every block is written, and none is unadmitted") {
  EngineKit kit;
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  const auto sequence = make_sequence(1, 3);
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  const auto stats = kit.engine().stats(kit.caller());
  CHECK(stats.admission == "all");
  CHECK(stats.gauges.at("unadmitted_blocks") == 0);
  CHECK(stats.gauges.at("last_sequence") == 3);
  kit.loop().run_until([&] { return kit.engine().stats(kit.caller()).store.blocks == 3; });
}

TEST_CASE("An engine is not created with an unknown policy") {
  EngineKit kit;
  EngineOptions options = kit.options();
  options.store.directory += "-other";
  options.admission = "first-use";
  const auto engine = Engine::create(options, kit.loop());
  REQUIRE_FALSE(engine.ok());
  CHECK(engine.error().message().find("first-use") != std::string::npos);
}

TEST_CASE("second-use writes nothing at a first put, and a shutdown does not either") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 3);
  kit.store(sequence);
  CHECK(kit.present(sequence) == 3);
  CHECK(kit.gauge("dirty_blocks") == 0);
  CHECK(kit.gauge("unadmitted_blocks") == 3);
  CHECK(kit.gauge("unadmitted_bytes") == 3 * 4096);
  CHECK(kit.counter("admission_declined_blocks") == 3);
  bool drained = false;
  kit.engine().drain(Milliseconds(10'000), [&] { drained = true; });
  kit.loop().run_until([&] { return drained; });
  CHECK(kit.engine().stats(kit.caller()).store.appended_blocks == 0);
  kit.restart();
  CHECK(kit.present(sequence) == 0);
}

TEST_CASE("A block found by LOOKUP or GET is written, and before it what it continues") {
  for (const bool by_get : {false, true}) {
    SecondUse kit;
    const auto wanted = make_sequence(1, 3);
    const auto other = make_sequence(2, 2);
    const Committed committed = kit.store(wanted);
    kit.store(other);
    Selection last;
    last.ns = kit.ns;
    last.hashes = {committed.hashes[2]};
    if (by_get) {
      REQUIRE(kit.await<Loaded>([&](auto done) {
                   kit.engine().get(kit.caller(), last, true, Milliseconds(1000), std::move(done));
                 })
                  .ok());
    } else {
      REQUIRE(kit.await<LeaseGrant>([&](auto done) {
                   kit.engine().lookup(kit.caller(), last, Milliseconds(1000), std::move(done));
                 })
                  .ok());
    }
    CHECK(kit.counter("admission_later_blocks") == 3);
    kit.die();
    CHECK(kit.present(wanted) == 3);
    CHECK(kit.present(other) == 0);
  }
}

TEST_CASE("Shards looked up as a group are admitted as far as all have them") {
  SecondUse kit;
  const auto longer = make_sequence(1, 3);
  const auto shorter = make_sequence(2, 2);
  kit.store(longer);
  kit.store(shorter);
  REQUIRE(kit.await<std::vector<LeaseGrant>>([&](auto done) {
               kit.engine().group_lookup(
                   kit.caller(),
                   {by_tokens(kit.ns, longer.tokens), by_tokens(kit.ns, shorter.tokens)},
                   Milliseconds(1000), std::move(done));
             })
              .ok());
  kit.die();
  CHECK(kit.present(longer) == 2);
  CHECK(kit.present(shorter) == 2);
}

TEST_CASE("While writing lags behind, a hit admits only what may wait; the next hit admits more") {
  SecondUse kit;
  kit.options().unflushed_bytes_max = std::uint64_t{4} * 4096;
  kit.restart();
  const auto sequence = make_sequence(1, 5);
  kit.store(sequence);
  REQUIRE(kit.lookup(kit.caller(), kit.ns, sequence.tokens).ok());
  CHECK(kit.counter("admission_later_blocks") == 2);
  kit.write_what_is_admitted();
  REQUIRE(kit.lookup(kit.caller(), kit.ns, sequence.tokens).ok());
  CHECK(kit.counter("admission_later_blocks") == 4);
  CHECK(kit.counter("encoded_raw_for_lag") == 0);
}

TEST_CASE("EXISTS is no use: it admits nothing") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 1);
  kit.store(sequence);
  CHECK(kit.present(sequence) == 1);
  CHECK(kit.gauge("unadmitted_blocks") == 1);
}

TEST_CASE("A second put of a block writes it") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 2);
  const Committed first = kit.store(sequence);
  const Committed second = kit.store(sequence);
  CHECK(second.status[1] == static_cast<std::uint8_t>(ErrorKind::exists));
  CHECK(second.sequence == first.sequence);  // what a FLUSH must name
  kit.die();
  CHECK(kit.present(sequence) == 2);
}

TEST_CASE("FLUSH writes what became visible up to its sequence, and nothing after") {
  SecondUse kit;
  const auto before = make_sequence(1, 2);
  const auto after = make_sequence(2, 2);
  const Committed committed = kit.store(before);
  kit.store(after);
  CHECK(kit.flush_up_to(committed.sequence, kit.caller()) == committed.sequence);
  CHECK(kit.gauge("unadmitted_blocks") == 2);
  kit.restart();  // at once: FLUSH was answered
  CHECK(kit.present(before) == 2);
  CHECK(kit.present(after) == 0);
}

TEST_CASE("FLUSH without a sequence writes everything visible") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 5);
  kit.store(sequence);
  REQUIRE(kit.flush(kit.caller()).ok());
  kit.restart();
  CHECK(kit.present(sequence) == 5);
}

TEST_CASE("FLUSH writes nothing of another tenant") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 2);
  const Committed committed = kit.store(sequence);
  kit.flush_up_to(committed.sequence, kit.caller(2, "other"));
  CHECK(kit.gauge("unadmitted_blocks") == 2);
}

TEST_CASE("A durable put writes its blocks and what they continue, and nothing else") {
  SecondUse kit;
  const auto whole = make_sequence(1, 4);
  const auto other = make_sequence(2, 2);
  kit.store(other);
  const Committed head = kit.store(first_blocks(whole, 3));
  NewBlocks asked = continuing(kit.ns, whole, 3, head.hashes[2]);
  asked.durable = true;
  REQUIRE(kit.await<Committed>([&](auto done) {
               kit.engine().put(kit.caller(), asked,
                                std::make_shared<const ByteVector>(whole.blocks[3]), 0,
                                std::move(done));
             })
              .ok());
  CHECK(kit.gauge("unadmitted_blocks") == 2);
  kit.restart();
  CHECK(kit.present(whole) == 4);
  CHECK(kit.present(other) == 0);
}

TEST_CASE("A durable put of blocks that exist in memory alone writes them") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 3);
  kit.store(sequence);
  kit.store(sequence, true);
  kit.restart();
  CHECK(kit.present(sequence) == 3);
}

TEST_CASE("A block in memory alone is not evicted while a durable put of the same is compared") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 1);
  kit.store(sequence);
  NewBlocks asked;
  asked.ns = kit.ns;
  asked.tokens = sequence.tokens;
  asked.durable = true;
  std::optional<Result<Committed>> stored;
  kit.engine().put(kit.caller(), asked, std::make_shared<const ByteVector>(sequence.blocks[0]), 0,
                   [&](Result<Committed> committed) { stored = std::move(committed); });
  std::size_t steps = 0;
  kit.loop().run_until([&] {  // after the first step the block was found, and is being compared
    if (++steps > 1) kit.engine().evict(kit.caller(), 1_GiB, [](const Result<Removal>&) {});
    return stored.has_value();
  });
  REQUIRE(stored->ok());
  kit.restart();
  CHECK(kit.present(sequence) == 1);
}

TEST_CASE("What a durable block continues is written too if it is still being copied in") {
  SecondUse kit;
  const auto whole = make_sequence(1, 2);
  const auto head = first_blocks(whole, 1);
  const Hash256 parent = kit.store(head).hashes[0];
  REQUIRE(kit.remove(kit.caller(), kit.ns, head.tokens).ok());
  kit.restart();  // also forgets that the key was seen
  kit.open_namespace(small_model(), kit.caller());
  NewBlocks tail = continuing(kit.ns, whole, 1, parent);
  tail.durable = true;
  NewBlocks first;
  first.ns = kit.ns;
  first.tokens = head.tokens;
  std::size_t answered = 0;
  const auto count = [&](const Result<Committed>& committed) {
    REQUIRE(committed.ok());
    ++answered;
  };
  // The worker copies the tail first; the head has its place by then.
  kit.engine().put(kit.caller(), tail, std::make_shared<const ByteVector>(whole.blocks[1]), 0,
                   count);
  kit.engine().put(kit.caller(), first, std::make_shared<const ByteVector>(whole.blocks[0]), 0,
                   count);
  kit.loop().run_until([&] { return answered == 2; });
  CHECK(kit.counter("admission_declined_blocks") == 0);
  kit.die();
  CHECK(kit.present(whole) == 2);
}

TEST_CASE("PIN writes blocks, and before them what they continue; unpinning does not") {
  SecondUse kit;
  const auto pinned = make_sequence(1, 3);
  const auto unpinned = make_sequence(2, 2);
  kit.store(pinned);
  kit.store(unpinned);
  kit.pin(unpinned, false);
  kit.pin(pinned, true);
  kit.evict_all();
  CHECK(kit.present(pinned) == 3);
  kit.restart();
  CHECK(kit.present(pinned) == 3);
  CHECK(kit.present(unpinned) == 0);
}

TEST_CASE("A pinned put is written") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 1);
  NewBlocks asked;
  asked.ns = kit.ns;
  asked.tokens = sequence.tokens;
  asked.pinned = true;
  REQUIRE(kit.await<Committed>([&](auto done) {
               kit.engine().put(kit.caller(), asked,
                                std::make_shared<const ByteVector>(sequence.blocks[0]), 0,
                                std::move(done));
             })
              .ok());
  kit.die();
  CHECK(kit.present(sequence) == 1);
}

TEST_CASE("A time to live that was set before a block is admitted is written with it") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 1);
  const Committed committed = kit.store(sequence);
  REQUIRE(kit.await<Changed>([&](auto done) {
               kit.engine().set_ttl(kit.caller(), by_tokens(kit.ns, sequence.tokens), 3'600'000,
                                    std::move(done));
             })
              .ok());
  CHECK(kit.gauge("unadmitted_blocks") == 1);
  REQUIRE(kit.flush(kit.caller()).ok());
  const auto details = kit.await<BlockDetails>([&](auto done) {
    kit.engine().inspect(kit.caller(), {kit.ns, committed.hashes[0], 0}, std::move(done));
  });
  REQUIRE(details.ok());
  CHECK(details->on_disk);
  CHECK(details->expires_unix_ms == kit.clock().unix_ms() + 3'600'000);
}

TEST_CASE(
    "A block evicted before it was admitted is a miss and counted, and written when put again") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 3);
  kit.store(sequence);
  kit.evict_all();
  CHECK(kit.present(sequence) == 0);
  CHECK(kit.counter("evicted_unadmitted_blocks") == 3);
  CHECK(kit.gauge("unadmitted_blocks") == 0);
  CHECK(kit.gauge("unadmitted_bytes") == 0);
  kit.store(sequence);
  kit.die();
  CHECK(kit.present(sequence) == 3);
}

TEST_CASE("Blocks in memory alone make room for new ones, and hold no put up") {
  SecondUse kit(16_MiB);
  for (std::uint32_t i = 0; i < 60; ++i) {
    const auto sequence = make_sequence(100 + i, 100);
    const Committed committed = kit.store(sequence);
    CHECK(committed.status == std::vector<std::uint8_t>(100, 0));
  }
  const std::uint64_t evicted = kit.counter("evicted_unadmitted_blocks");
  CHECK(evicted > 0);
  CHECK(kit.gauge("unadmitted_blocks") == 6000 - evicted);
  CHECK(kit.gauge("blocks_in_host") == 6000 - evicted);
}

TEST_CASE("A removed block that was never admitted leaves nothing, in memory and on disk") {
  const auto sequence = make_sequence(1, 3);
  enum class By : std::uint8_t { remove, clear, clear_host, epoch };
  for (const By by : {By::remove, By::clear, By::clear_host, By::epoch}) {
    SecondUse kit;
    kit.store(sequence);
    ClearRequest request;
    request.host_only = by == By::clear_host;
    switch (by) {
      case By::remove:
        REQUIRE(
            kit.remove(kit.caller(), kit.ns, first_blocks(sequence, 1).tokens)->removed_blocks ==
            3);
        break;
      case By::clear:
      case By::clear_host: kit.clear(request); break;
      case By::epoch:
        REQUIRE(kit.await<std::uint64_t>([&](auto done) {
                     kit.engine().bump_weight_epoch(kit.caller(), "m", std::move(done));
                   })
                    .ok());
    }
    CHECK(kit.gauge("unadmitted_blocks") == 0);
    CHECK(kit.gauge("unadmitted_bytes") == 0);
    CHECK(kit.gauge("directory_entries") == 0);
    REQUIRE(kit.flush(kit.caller()).ok());
    CHECK(kit.engine().stats(kit.caller()).store.appended_blocks == 0);
    CHECK(kit.engine().stats(kit.caller()).arena.slots_used == 0);
  }
}

TEST_CASE("What continues a removed block goes with it, though memory knows only its end") {
  const auto sequence = make_sequence(1, 3);
  SecondUse kit;
  const Committed stored = [&] {
    const auto two = first_blocks(sequence, 2);
    return kit.store(two, true);
  }();
  kit.die();  // the first two are known to the index alone
  NewBlocks asked;
  asked.ns = kit.ns;
  asked.parent = stored.hashes[1];
  for (std::size_t i = 32; i < 48; ++i) asked.tokens.push_back(sequence.tokens[i]);
  const auto third = kit.await<Committed>([&](auto done) {
    kit.engine().put(kit.caller(), asked, std::make_shared<const ByteVector>(sequence.blocks[2]), 0,
                     std::move(done));
  });
  REQUIRE(third.ok());
  REQUIRE(kit.gauge("unadmitted_blocks") == 1);
  const auto removed = kit.remove(kit.caller(), kit.ns, first_blocks(sequence, 1).tokens);
  REQUIRE(removed.ok());
  CHECK(removed->removed_blocks == 3);
  Selection by_hash;
  by_hash.ns = kit.ns;
  by_hash.by = SelectBy::hash;
  by_hash.hashes.push_back(third->hashes[0]);
  const auto found = kit.await<LeaseGrant>([&](auto done) {
    kit.engine().lookup(kit.caller(), by_hash, Milliseconds(1000), std::move(done));
  });
  REQUIRE(found.ok());
  CHECK(found->tiers.empty());
  CHECK(kit.gauge("unadmitted_blocks") == 0);
  CHECK(kit.engine().stats(kit.caller()).arena.slots_used == 0);
}

TEST_CASE("Whoever relies on a block that another client put is told if it can't be written") {
  enum class By : std::uint8_t { durable_put, flush, pin };
  for (const By by : {By::durable_put, By::flush, By::pin}) {
    CAPTURE(static_cast<int>(by));
    SecondUse kit;
    const auto script = std::make_shared<storage::FaultScript>();
    kit.options().store.wrap_device = [script](std::unique_ptr<storage::Device> device) {
      return std::make_unique<storage::FaultyDevice>(std::move(device), script);
    };
    kit.restart();
    const auto sequence = make_sequence(1, 2);
    kit.store(sequence);
    const Caller other = kit.caller(2);
    script->add({.target = storage::FaultTarget::write, .from_then_on = true});
    bool told = false;
    switch (by) {
      case By::durable_put:
        told = !kit.put(other, kit.ns, sequence.tokens, sequence.blocks, true).ok();
        break;
      case By::flush: told = !kit.flush(other).ok(); break;
      case By::pin:
        told = !kit.await<Changed>([&](auto done) {
                     kit.engine().pin(other, by_tokens(kit.ns, sequence.tokens), true,
                                      std::move(done));
                   })
                    .ok();
    }
    CHECK(told);
    CHECK_FALSE(kit.flush(kit.caller()).ok());  // and whoever put it
  }
}

TEST_CASE("A look-up grants nothing that was evicted while it read the index") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 3);
  kit.store(first_blocks(sequence, 2));
  std::optional<Result<LeaseGrant>> granted;
  kit.engine().lookup(kit.caller(), by_tokens(kit.ns, sequence.tokens), Milliseconds(1000),
                      [&](Result<LeaseGrant> grant) { granted = std::move(grant); });
  REQUIRE_FALSE(granted.has_value());  // it asks the index for the third
  kit.engine().evict(kit.caller(), 1_GiB, [](const Result<Removal>&) {});
  kit.loop().run_until([&] { return granted.has_value(); });
  REQUIRE(granted->ok());
  CHECK((*granted)->tiers.empty());
  CHECK(kit.counter("hit_blocks_disk") == 0);
}

TEST_CASE("A block that is larger than what may wait is written when nothing else is") {
  SecondUse kit;
  kit.options().unflushed_bytes_max = 4096;  // the half of it is half a block
  kit.restart();
  const auto sequence = make_sequence(1, 2);
  kit.store(sequence);
  for (int use = 1; use <= 2; ++use) {
    REQUIRE(kit.lookup(kit.caller(), kit.ns, sequence.tokens).ok());
    CHECK(kit.counter("admission_later_blocks") == use);
    kit.write_what_is_admitted();
  }
}

TEST_CASE("INSPECT and LIST tell that a block is in memory alone since it was not admitted") {
  SecondUse kit;
  const auto sequence = make_sequence(1, 3);
  const Committed committed = kit.store(sequence);
  const auto inspect = [&] {
    const auto details = kit.await<BlockDetails>([&](auto done) {
      kit.engine().inspect(kit.caller(), {kit.ns, committed.hashes[0], 0}, std::move(done));
    });
    REQUIRE(details.ok());
    return *details;
  };
  const auto listed = [&](std::size_t limit) {
    const auto page = kit.await<Page>([&](auto done) {
      kit.engine().list_blocks(kit.caller(), kit.ns, std::nullopt, limit, std::move(done));
    });
    REQUIRE(page.ok());
    return page->blocks.size();
  };
  CHECK(inspect().unadmitted);
  CHECK_FALSE(inspect().on_disk);
  CHECK(listed(2) == 2);
  CHECK(listed(1000) == 3);
  REQUIRE(kit.flush(kit.caller()).ok());
  CHECK_FALSE(inspect().unadmitted);
  CHECK(inspect().on_disk);
}

TEST_CASE("second-use admits all until the disk is nearly full, which is noticed in time") {
  EngineKit kit(32_MiB, 64_MiB);  // 12 segments
  kit.options().admission = "second-use";
  kit.options().codec = "raw";
  kit.options().worker_threads = 1;
  kit.restart();
  NamespaceSpec spec;
  spec.model.fingerprint = "values";
  spec.tenant = "default";
  const auto ns = kit.open_namespace(spec, kit.caller()).ns;
  std::uint64_t next = 0;
  const auto put_one = [&](bool durable) {
    NewBlocks asked;
    asked.ns = ns;
    asked.by = SelectBy::key;
    asked.keys = {"value" + std::to_string(next)};
    asked.lengths = {1_MiB};
    asked.durable = durable;
    auto value = std::make_shared<ByteVector>(1_MiB);
    store_le(value->data(), next++);
    REQUIRE(kit.await<Committed>([&](auto done) {
                 kit.engine().put(kit.caller(), asked, value, 0, std::move(done));
               })
                .ok());
  };
  const auto unadmitted = [&] {
    return kit.engine().stats(kit.caller()).gauges.at("unadmitted_blocks");
  };
  const auto look_at_the_disk = [&] {
    kit.clock().advance(std::chrono::seconds(2));
    kit.engine().tick();
    put_one(false);  // the one worker looks before it copies
  };
  look_at_the_disk();
  CHECK(unadmitted() == 0);
  for (int i = 0; i < 40; ++i) put_one(true);
  CHECK(unadmitted() == 0);  // nobody looked since
  look_at_the_disk();
  CHECK(unadmitted() == 1);
  kit.restart();
  put_one(false);
  CHECK(unadmitted() == 1);
}
