// "second-use" against a model: random requests, and after each the engine must have written,
// kept and lost exactly the blocks that the model says.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine_test_kit.h"
#include "tests/base/seed.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

constexpr std::size_t chain_blocks = 6;
constexpr std::size_t shared_blocks = 3;  ///< the first chains begin alike
constexpr std::size_t chains = 4;

enum class State : std::uint8_t { absent, in_memory, on_disk };

/// What the engine should hold. Nodes are blocks; a chain is a path of them.
struct Model {
  struct Node {
    State state = State::absent;
    std::uint64_t sequence = 0;
    bool seen = false;
  };
  std::vector<Node> nodes{chains * chain_blocks};
  std::uint64_t sequence = 0;
  std::uint64_t evicted = 0;

  static std::size_t node(std::size_t chain, std::size_t block) {
    return (chain == 1 && block < shared_blocks ? 0 : chain) * chain_blocks + block;
  }
  Node& at(std::size_t chain, std::size_t block) { return nodes[node(chain, block)]; }

  void admit(std::size_t chain, std::size_t block) {
    for (std::size_t i = block + 1; i-- > 0 && at(chain, i).state == State::in_memory;) {
      at(chain, i).state = State::on_disk;
    }
  }
  void put(std::size_t chain, std::size_t blocks, bool durable) {
    for (std::size_t i = 0; i < blocks; ++i) {
      Node& one = at(chain, i);
      const bool is_new = one.state == State::absent;
      if (is_new) one.sequence = ++sequence;
      if (is_new) one.state = State::in_memory;
      if (one.seen || !is_new || durable) admit(chain, i);
      one.seen = one.seen || is_new;  // a put that finds the block on disk is not remembered
    }
  }
  std::size_t look_up(std::size_t chain, std::size_t blocks) {
    std::size_t found = 0;
    while (found < blocks && at(chain, found).state != State::absent) admit(chain, found++);
    return found;
  }
  void flush(std::uint64_t up_to) {
    for (Node& one : nodes) {
      if (one.state == State::in_memory && one.sequence <= up_to) one.state = State::on_disk;
    }
  }
  void evict() {
    evicted += count(State::in_memory);
    lose_memory();
  }
  void lose_memory() {
    for (Node& one : nodes) {
      if (one.state == State::in_memory) one.state = State::absent;
    }
  }
  void remove_from(std::size_t chain, std::size_t block) {
    const bool shared = chain < 2 && block < shared_blocks;
    for (std::size_t i = block; i < chain_blocks; ++i) {
      at(chain, i).state = State::absent;
      if (shared) at(1 - chain, i).state = State::absent;
    }
  }
  void restart() {
    lose_memory();
    for (Node& one : nodes) one.seen = false;
    sequence = 0;
    evicted = 0;
  }
  std::size_t count(State state) const {
    return static_cast<std::size_t>(std::ranges::count(nodes, state, &Node::state));
  }
};

/// The engine under test, asked by chain and number of blocks.
class Subject {
 public:
  Subject() {
    kit_.options().admission = "second-use";
    kit_.options().admit_all_until_full = false;
    kit_.options().codec = "raw";
    kit_.options().worker_threads = 1;  // blocks of one put become visible in order
    kit_.restart();
    ns_ = kit_.open_namespace(small_model(), kit_.caller()).ns;
    for (std::uint32_t chain = 0; chain < chains; ++chain) {
      chains_.push_back(make_sequence(chain + 1, chain_blocks));
    }
    std::copy_n(chains_[0].tokens.begin(), shared_blocks * 16, chains_[1].tokens.begin());
    std::copy_n(chains_[0].blocks.begin(), shared_blocks, chains_[1].blocks.begin());
  }

  void put(std::size_t chain, std::size_t blocks, bool durable) {
    const auto first = chains_[chain].blocks.begin();
    REQUIRE(kit_.put(kit_.caller(), ns_, tokens(chain, blocks),
                     {first, first + static_cast<std::ptrdiff_t>(blocks)}, durable)
                .ok());
  }
  std::size_t look_up(std::size_t chain, std::size_t blocks) {
    const auto loaded = kit_.get(kit_.caller(), ns_, tokens(chain, blocks));
    REQUIRE(loaded.ok());
    for (std::size_t i = 0; i < loaded->blocks.size(); ++i) {
      REQUIRE(loaded->blocks[i].status == 0);
      CHECK(bytes_of_block(loaded->blocks[i]) == chains_[chain].blocks[i]);
    }
    if (!loaded->blocks.empty()) {
      REQUIRE(kit_.engine().release(kit_.caller(), loaded->grant.lease).ok());
    }
    return loaded->blocks.size();
  }
  void flush(std::uint64_t up_to) {
    const auto flushed = kit_.await<Sequence>(
        [&](auto done) { kit_.engine().flush(kit_.caller(), Sequence{up_to}, std::move(done)); });
    REQUIRE(flushed.ok());
    CHECK(flushed->value >= up_to);
  }
  void evict() {
    settle();
    REQUIRE(kit_.await<Removal>(
                    [&](auto done) { kit_.engine().evict(kit_.caller(), 1_GiB, std::move(done)); })
                .ok());
  }
  void remove_from(std::size_t chain, std::size_t block) {
    ClearRequest request;
    request.scope = ClearScope::prefix;
    request.prefix = by_tokens(ns_, tokens(chain, block + 1));
    request.also_pinned = true;
    REQUIRE(kit_.await<Removal>([&](auto done) {
                  kit_.engine().clear(kit_.caller(), request, std::move(done));
                })
                .ok());
  }
  void restart() {
    settle();
    kit_.restart();
  }

  void check_against(const Model& model) {
    const EngineStats stats = kit_.engine().stats(kit_.caller());
    CHECK(stats.gauges.at("last_sequence") == model.sequence);
    CHECK(stats.gauges.at("unadmitted_blocks") == model.count(State::in_memory));
    CHECK(stats.gauges.at("unadmitted_bytes") == 4096 * model.count(State::in_memory));
    CHECK(stats.counters.at("evicted_unadmitted_blocks") == model.evicted);
    for (std::size_t chain = 0; chain < chains; ++chain) {
      const auto present = kit_.exists(kit_.caller(), ns_, tokens(chain, chain_blocks));
      for (std::size_t i = 0; i < chain_blocks; ++i) {
        CAPTURE(chain);
        CAPTURE(i);
        const State wanted = model.nodes[Model::node(chain, i)].state;
        CHECK((present[i] != 0) == (wanted != State::absent));
      }
    }
  }

 private:
  std::vector<std::uint32_t> tokens(std::size_t chain, std::size_t blocks) const {
    const auto first = chains_[chain].tokens.begin();
    return {first, first + static_cast<std::ptrdiff_t>(blocks * 16)};
  }
  /// Until what was admitted is on disk.
  void settle() {
    kit_.loop().run_until(
        [&] { return kit_.engine().stats(kit_.caller()).gauges.at("dirty_blocks") == 0; });
  }

  EngineKit kit_;
  NamespaceId ns_;
  std::vector<Sequence16> chains_;
};

void act(Subject& subject, Model& model, kvstrata::test::Random& random) {
  const std::size_t chain = random.below(chains);
  const std::size_t blocks = 1 + random.below(chain_blocks);
  switch (random.below(10)) {
    case 0:
      subject.evict();
      model.evict();
      break;
    case 1: {
      const std::uint64_t up_to = random.below(model.sequence + 1);
      subject.flush(up_to);
      model.flush(up_to);
      break;
    }
    case 2:
      subject.remove_from(chain, blocks - 1);
      model.remove_from(chain, blocks - 1);
      break;
    case 3:
      subject.restart();
      model.restart();
      break;
    case 4:
      subject.put(chain, blocks, true);
      model.put(chain, blocks, true);
      break;
    case 5:
    case 6: CHECK(subject.look_up(chain, blocks) == model.look_up(chain, blocks)); break;
    default: subject.put(chain, blocks, false); model.put(chain, blocks, false);
  }
}

}  // namespace

TEST_CASE("second-use writes, keeps and loses the blocks that a model says, whatever is asked") {
  kvstrata::test::Random random(kvstrata::test::test_seed("second-use model"));
  Subject subject;
  Model model;
  for (int step = 0; step < 400; ++step) {
    CAPTURE(step);
    act(subject, model, random);
    subject.check_against(model);
  }
  subject.restart();
  model.restart();
  subject.check_against(model);
}
