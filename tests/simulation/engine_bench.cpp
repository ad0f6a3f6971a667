#include "tests/simulation/engine_bench.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "kvstrata/check.h"
#include "storage/device/device.h"
#include "storage/device/memory_device.h"
#include "tests/simulation/simulated_file_system.h"

namespace kvstrata::simulation {

namespace {

using daemon::Committed;
using daemon::Loaded;
using daemon::NewBlocks;
using daemon::Registered;
using daemon::Reserved;
using daemon::Selection;

constexpr std::uint32_t block_tokens = 16;
constexpr std::uint16_t large_group = 0, small_group = 1;
constexpr Milliseconds lease_period{10'000};
// More than the store waits before it tries a failed disk again.
constexpr Milliseconds flush_step{60'000};

NamespaceSpec a_namespace() {
  NamespaceSpec spec;
  spec.tenant = "tenant";
  spec.model.fingerprint = "weights";
  spec.model.block_tokens = block_tokens;
  spec.model.groups = {{GroupKind::full_attention, 8, 8, 128, 128, 0},
                       {GroupKind::full_attention, 2, 8, 128, 128, 0}};
  return spec;
}

std::uint16_t group_of(const EngineBench::Name& name) {
  return name.large ? large_group : small_group;
}

std::vector<std::uint32_t> tokens_of(const EngineBench::Name& name) {
  std::vector<std::uint32_t> tokens(block_tokens);
  for (std::uint32_t i = 0; i < block_tokens; ++i) {
    tokens[i] = static_cast<std::uint32_t>(name.number) * block_tokens + i;
  }
  return tokens;
}

// Scalars of one exponent each, so that the static codec has something to gain.
ByteVector content_of(const EngineBench::Name& name) {
  ByteVector content(name.large ? 512_KiB : 128_KiB);
  std::uint64_t state = static_cast<std::uint64_t>(name.number) * 2 + 1;
  for (std::size_t at = 0; at < content.size(); at += sizeof state) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    store_le(content.data() + at, ((state >> 20) & 0x007f007f007f007fULL) | 0x3f803f803f803f80ULL);
  }
  return content;
}

bool holds(const std::byte* data, const EngineBench::Name& name) {
  const ByteVector content = content_of(name);
  return std::memcmp(data, content.data(), content.size()) == 0;
}

}  // namespace

void ControlLoop::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  arrived_.notify_one();
}

void ControlLoop::run_until(const std::function<bool()>& is_done) {
  while (!is_done()) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !queue_.empty(); });
    const auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
  }
}

EngineBench::EngineBench(const std::string& directory, Disks disks, FaultyCalls& calls)
    : calls_(calls), memory_(calls_), rings_(calls_), frames_(calls_) {
  std::filesystem::remove_all(directory);
  storage::StoreOptions& store = options_.store;
  store.directory = directory;
  store.segment_bytes = 1_MiB;
  store.index_reserve_bytes = 8_MiB;
  store.disk_budget_bytes = 8_MiB + 12 * store.segment_bytes + 128_KiB;
  store.group_commit_delay = Milliseconds(0);
  store.clock = &clock_;
  store.open_segments = [this] { return open_segments(); };
  if (disks == Disks::in_memory) {
    environment_ = simulated_environment(index_);
    segments_ = std::make_shared<storage::MemoryDisk>();
    store.index_environment = environment_.get();
  }
  options_.arena.budget_bytes = 16_MiB;
  options_.arena.chunk_bytes = 2_MiB;
  options_.arena.lock_memory = true;
  options_.arena.clock = &clock_;
  options_.arena.system = &memory_;
  options_.prefault_bytes = 4_MiB;
  options_.clock = &clock_;
  caller_.connection = {1};
  caller_.tenant = {1};
  caller_.tenant_name = "tenant";
  caller_.shared_memory = true;
}

Result<std::unique_ptr<storage::Device>> EngineBench::open_segments() {
  if (segments_) {
    return std::unique_ptr<storage::Device>(std::make_unique<storage::MemoryDevice>(segments_));
  }
  std::string fallback;
  return storage::open_device(
      {.directory = options_.store.directory + "/segments", .uring_system = &rings_}, &fallback);
}

bool EngineBench::start() {
  auto engine = daemon::Engine::create(options_, loop_);
  if (!engine) {
    error_ = engine.error();
    return false;
  }
  engine_ = std::move(*engine);
  const auto registered = await<Registered>(
      [&](auto done) { engine_->register_namespace(caller_, a_namespace(), std::move(done)); });
  if (!registered) {
    error_ = registered.error();
    engine_.reset();
    return false;
  }
  ns_ = registered->ns;
  return true;
}

void EngineBench::stop() {
  if (!engine_) return;
  engine_->connection_closed(caller_.connection);
  const storage::StoreStats store = engine_->stats(caller_).store;
  appended_ += store.appended_blocks;
  dropped_ += store.dropped_blocks;
  engine_.reset();
}

EngineBench::Ended EngineBench::ended_of(const Result<Committed>& committed) {
  if (!committed) return committed.error().kind();
  const auto status = static_cast<ErrorKind>(committed->status.front());
  const bool is_stored = committed->status.front() == 0 || status == ErrorKind::exists;
  return is_stored ? Ended() : Ended(status);
}

EngineBench::Ended EngineBench::put(const Name& name) {
  NewBlocks asked;
  asked.ns = ns_;
  asked.group = group_of(name);
  asked.tokens = tokens_of(name);
  const auto values = std::make_shared<const ByteVector>(content_of(name));
  return ended_of(await<Committed>(
      [&](auto done) { engine_->put(caller_, std::move(asked), values, 0, std::move(done)); }));
}

EngineBench::Ended EngineBench::put_staged(const Name& name) {
  const Result<Reserved> reserved = engine_->reserve(caller_, ns_, group_of(name), 1, 0);
  if (!reserved) return reserved.error().kind();
  return commit(name, reserved->slots.front());
}

EngineBench::Ended EngineBench::commit(const Name& name, const protocol::StagingRef& slot) {
  const auto chunk = engine_->find_chunk(ChunkId{slot.chunk});
  KV_CHECK(chunk.has_value(), "a reserved slot lies in a chunk");
  engine_->chunk_sent(chunk->id, caller_.connection);
  void* const at =
      ::mmap(nullptr, chunk->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, chunk->fd, 0);
  KV_CHECK(at != MAP_FAILED, "a client maps what it is given");
  const ByteVector content = content_of(name);
  std::memcpy(static_cast<std::byte*>(at) + slot.offset, content.data(), content.size());
  ::munmap(at, chunk->file_bytes);
  engine_->chunk_unmapped(chunk->id, caller_.connection);
  NewBlocks asked;
  asked.ns = ns_;
  asked.group = group_of(name);
  asked.tokens = tokens_of(name);
  return ended_of(await<Committed>([&](auto done) {
    engine_->commit(caller_, std::move(asked), {slot.slot}, std::move(done));
  }));
}

EngineBench::Answer EngineBench::get(const Name& name) {
  Selection wanted;
  wanted.ns = ns_;
  wanted.group = group_of(name);
  wanted.by = daemon::SelectBy::tokens;
  wanted.tokens = tokens_of(name);
  const auto loaded = await<Loaded>([&](auto done) {
    engine_->get(caller_, std::move(wanted), true, lease_period, std::move(done));
  });
  if (!loaded) {
    refused_with_ = loaded.error().kind();
    return Answer::refused;
  }
  if (loaded->blocks.empty()) return Answer::absent;
  const daemon::LoadedBlock& block = loaded->blocks.front();
  Answer answer = Answer::refused;
  if (block.status == 0) {
    answer = holds(block.data, name) ? Answer::intact : Answer::wrong;
  } else if (block.status == static_cast<std::uint8_t>(ErrorKind::not_found)) {
    answer = Answer::absent;
  } else if (block.status == static_cast<std::uint8_t>(ErrorKind::corrupt)) {
    answer = Answer::unreadable;
  } else {
    refused_with_ = static_cast<ErrorKind>(block.status);
  }
  if (loaded->grant.lease != LeaseId{}) (void)engine_->release(caller_, loaded->grant.lease);
  return answer;
}

Status EngineBench::flush() {
  const auto flushed =
      await<Sequence>([&](auto done) { engine_->flush(caller_, std::nullopt, std::move(done)); });
  clock_.advance(flush_step);
  (void)engine_->tick();
  return flushed ? Status() : Status(flushed.error());
}

}  // namespace kvstrata::simulation
