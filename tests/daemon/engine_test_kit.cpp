#include "engine_test_kit.h"

#include <doctest/doctest.h>
#include <unistd.h>

namespace kvstrata::daemon::test {

void TestLoop::post(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(work));
  }
  arrived_.notify_one();
}

void TestLoop::run_until(const std::function<bool()>& is_done) {
  while (!is_done()) {
    std::unique_lock lock(mutex_);
    const bool came =
        arrived_.wait_for(lock, std::chrono::seconds(60), [this] { return !queue_.empty(); });
    REQUIRE_MESSAGE(came, "nothing arrived for a minute: the engine hangs");
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
  }
}

TempDirectory::TempDirectory() {
  std::string path = std::filesystem::temp_directory_path() / "kvstrata-test-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  path_ = path;
}

EngineKit::EngineKit(std::uint64_t host_bytes, std::uint64_t disk_bytes) {
  options_.store.directory = directory_.path() + "/store";
  options_.store.disk_budget_bytes = disk_bytes;
  options_.store.segment_bytes = 4_MiB;
  options_.arena.budget_bytes = host_bytes;
  options_.arena.chunk_bytes = 1_MiB;
  options_.arena.huge_pages = false;
  options_.clock = &clock_;
  options_.arena.clock = &clock_;
  open();
}

EngineKit::~EngineKit() = default;

void EngineKit::open() {
  auto engine = Engine::create(options_, loop_);
  REQUIRE_MESSAGE(engine.ok(), (engine ? "" : engine.error().message()));
  engine_ = std::move(*engine);
}

void EngineKit::restart() {
  engine_.reset();
  open();
}

Caller EngineKit::caller(std::uint64_t connection, std::string tenant) const {
  Caller caller;
  caller.connection = {connection};
  caller.tenant = {tenant == "default" ? 1U : 2U};
  caller.tenant_name = std::move(tenant);
  caller.shared_memory = true;
  return caller;
}

Registered EngineKit::open_namespace(const NamespaceSpec& spec, const Caller& by) {
  auto registered =
      await<Registered>([&](auto done) { engine_->register_namespace(by, spec, std::move(done)); });
  REQUIRE_MESSAGE(registered.ok(), (registered ? "" : registered.error().message()));
  return *registered;
}

Result<Committed> EngineKit::put(const Caller& by, NamespaceId ns,
                                 std::vector<std::uint32_t> tokens,
                                 const std::vector<ByteVector>& blocks, bool durable) {
  NewBlocks asked;
  asked.ns = ns;
  asked.tokens = std::move(tokens);
  asked.durable = durable;
  auto values = std::make_shared<ByteVector>();
  for (const ByteVector& block : blocks) {
    values->insert(values->end(), block.begin(), block.end());
  }
  return await<Committed>(
      [&](auto done) { engine_->put(by, std::move(asked), values, 0, std::move(done)); });
}

Result<LeaseGrant> EngineKit::lookup(const Caller& by, NamespaceId ns,
                                     std::vector<std::uint32_t> tokens) {
  return await<LeaseGrant>([&](auto done) {
    engine_->lookup(by, by_tokens(ns, std::move(tokens)), Milliseconds(10000), std::move(done));
  });
}

Result<Loaded> EngineKit::get(const Caller& by, NamespaceId ns, std::vector<std::uint32_t> tokens) {
  return await<Loaded>([&](auto done) {
    engine_->get(by, by_tokens(ns, std::move(tokens)), true, Milliseconds(10000), std::move(done));
  });
}

std::vector<std::uint8_t> EngineKit::exists(const Caller& by, NamespaceId ns,
                                            std::vector<std::uint32_t> tokens) {
  std::optional<std::vector<std::uint8_t>> each;
  engine_->exists(by, by_tokens(ns, std::move(tokens)), [&](const Result<Present>& found) {
    REQUIRE(found.ok());
    each = found->each;
  });
  loop_.run_until([&] { return each.has_value(); });
  return *each;
}

Status EngineKit::flush(const Caller& by) {
  const auto flushed =
      await<Sequence>([&](auto done) { engine_->flush(by, std::nullopt, std::move(done)); });
  return flushed ? Status() : Status(flushed.error());
}

Result<Removal> EngineKit::remove(const Caller& by, NamespaceId ns,
                                  std::vector<std::uint32_t> tokens) {
  return await<Removal>([&](auto done) {
    engine_->remove(by, by_tokens(ns, std::move(tokens)), true, std::move(done));
  });
}

NamespaceSpec small_model(std::string fingerprint) {
  NamespaceSpec spec;
  spec.tenant = "default";
  spec.model.fingerprint = std::move(fingerprint);
  spec.model.block_tokens = 16;
  spec.model.groups = {{GroupKind::full_attention, 2, 2, 16, 16, 0}};
  return spec;
}

Sequence16 make_sequence(std::uint32_t seed, std::size_t blocks) {
  std::mt19937 random(seed);
  Sequence16 sequence;
  for (std::size_t i = 0; i < blocks * 16; ++i)
    sequence.tokens.push_back(static_cast<std::uint32_t>(random() % 50000));
  std::normal_distribution<float> normal;
  for (std::size_t b = 0; b < blocks; ++b) {
    ByteVector block;
    for (std::size_t i = 0; i < 2048; ++i) {
      // bf16 of a Gaussian, as a cache has them.
      const float value = normal(random);
      append_le(block, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    }
    sequence.blocks.push_back(std::move(block));
  }
  return sequence;
}

Selection by_tokens(NamespaceId ns, std::vector<std::uint32_t> tokens) {
  Selection selection;
  selection.ns = ns;
  selection.by = SelectBy::tokens;
  selection.tokens = std::move(tokens);
  return selection;
}

ByteVector bytes_of_block(const LoadedBlock& block) {
  return {block.data, block.data + block.ref.bytes};
}

}  // namespace kvstrata::daemon::test
