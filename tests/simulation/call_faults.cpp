#include "tests/simulation/call_faults.h"

#include <cerrno>
#include <cstring>

#include "storage/device/frame_memory.h"

namespace kvstrata::simulation {

namespace {

struct Kind {
  const char* name;
  std::array<int, 5> errors;  // up to the first 0
};

constexpr std::array<Kind, call_count> kinds = {{
    {"memfd_create", {EMFILE, ENFILE, ENOMEM, EPERM, EINVAL}},
    {"ftruncate", {ENOSPC, ENOMEM, EPERM}},
    {"mmap", {ENOMEM, EAGAIN, EPERM}},
    {"madvise", {ENOMEM, EAGAIN, EINVAL}},
    {"mlock", {ENOMEM, EAGAIN, EPERM}},
    {"add_seals", {EPERM, EBUSY, EINVAL}},
    {"memory of a frame", {ENOMEM}},
    {"io_uring_setup", {EPERM, ENOSYS, ENOMEM, EMFILE, EINVAL}},
    {"enabling of a ring", {ENOMEM, EACCES, EBADFD}},
    {"registering of a file table", {ENOMEM, EMFILE, EINVAL}},
    {"registering of a file", {ENOMEM, EBADF, EINVAL}},
    {"registering of a buffer table", {ENOMEM, EOPNOTSUPP, EINVAL}},
    {"registering of a buffer", {ENOMEM, EOPNOTSUPP, EFAULT}},
    {"pipe", {EMFILE, ENFILE}},
}};

const Kind& kind_of(Call call) {
  return kinds.at(static_cast<std::size_t>(call));
}

}  // namespace

std::span<const int> errors_of(Call call) {
  const auto& errors = kind_of(call).errors;
  std::size_t count = 0;
  while (count < errors.size() && errors[count] != 0) ++count;
  return std::span(errors).first(count);
}

std::string CallFault::name() const {
  return std::string(kind_of(call).name) + " " + std::to_string(nth) +
         (from_then_on ? " and all later: " : ": ") +
         std::strerror(error_number);  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
}

void FaultyCalls::plan(const CallFault& fault) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
}

void FaultyCalls::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

int FaultyCalls::next(Call call) {
  const std::lock_guard lock(mutex_);
  if (ended_) return 0;
  const std::uint64_t number = ++counts_.at(static_cast<std::size_t>(call));
  if (!fault_ || fault_->call != call || number < fault_->nth) return 0;
  if (number > fault_->nth && !fault_->from_then_on) return 0;
  ++struck_;
  return fault_->error_number;
}

std::uint64_t FaultyCalls::count(Call call) const {
  const std::lock_guard lock(mutex_);
  return counts_.at(static_cast<std::size_t>(call));
}

std::uint64_t FaultyCalls::struck() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

// The host tier.

bool FaultyMemorySystem::fails(Call call) const {
  const int error_number = calls_.next(call);
  if (error_number != 0) errno = error_number;
  return error_number != 0;
}

int FaultyMemorySystem::create_memfd(const char* name, unsigned flags) const {
  return fails(Call::memfd_create) ? -1 : MemorySystem::create_memfd(name, flags);
}

int FaultyMemorySystem::truncate(int fd, std::uint64_t bytes) const {
  return fails(Call::ftruncate) ? -1 : MemorySystem::truncate(fd, bytes);
}

std::byte* FaultyMemorySystem::map(int fd, std::uint64_t bytes) const {
  return fails(Call::mmap) ? nullptr : MemorySystem::map(fd, bytes);
}

std::byte* FaultyMemorySystem::map_nothing(std::uint64_t bytes) const {
  return fails(Call::mmap) ? nullptr : MemorySystem::map_nothing(bytes);
}

int FaultyMemorySystem::add_seals(int fd, int seals) const {
  return fails(Call::add_seals) ? -1 : MemorySystem::add_seals(fd, seals);
}

int FaultyMemorySystem::advise(std::byte* at, std::uint64_t bytes, int advice) const {
  return fails(Call::madvise) ? -1 : MemorySystem::advise(at, bytes, advice);
}

int FaultyMemorySystem::lock_on_fault(const std::byte* at, std::uint64_t bytes) const {
  if (fails(Call::mlock)) return -1;
  (void)MemorySystem::lock_on_fault(at, bytes);
  return 0;
}

// Rings.

int FaultyUringSystem::set_up(io_uring& ring, unsigned entries, io_uring_params& params) const {
  const int error_number = calls_.next(Call::ring_setup);
  return error_number != 0 ? -error_number : UringSystem::set_up(ring, entries, params);
}

int FaultyUringSystem::enable(io_uring& ring) const {
  const int error_number = calls_.next(Call::ring_enable);
  return error_number != 0 ? -error_number : UringSystem::enable(ring);
}

int FaultyUringSystem::register_files(io_uring& ring, unsigned places) const {
  const int error_number = calls_.next(Call::register_files);
  return error_number != 0 ? -error_number : UringSystem::register_files(ring, places);
}

int FaultyUringSystem::update_file(io_uring& ring, unsigned place, int fd) const {
  const int error_number = calls_.next(Call::update_file);
  return error_number != 0 ? -error_number : UringSystem::update_file(ring, place, fd);
}

int FaultyUringSystem::register_buffers(io_uring& ring, unsigned places) const {
  const int error_number = calls_.next(Call::register_buffers);
  return error_number != 0 ? -error_number : UringSystem::register_buffers(ring, places);
}

int FaultyUringSystem::update_buffer(io_uring& ring, unsigned place, const iovec& piece) const {
  const int error_number = calls_.next(Call::update_buffer);
  return error_number != 0 ? -error_number : UringSystem::update_buffer(ring, place, piece);
}

int FaultyUringSystem::make_pipe(int (&ends)[2]) const {
  const int error_number = calls_.next(Call::pipe);
  return error_number != 0 ? -error_number : UringSystem::make_pipe(ends);
}

// Buffers of frames.

FaultyFrameMemory::FaultyFrameMemory(FaultyCalls& calls) {
  storage::FrameMemory::instance().set_refuses(
      [&calls](std::uint64_t) { return calls.next(Call::frame_memory) != 0; });
}

FaultyFrameMemory::~FaultyFrameMemory() {
  storage::FrameMemory::instance().set_refuses(nullptr);
}

}  // namespace kvstrata::simulation
