#include "storage/device/device.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "kvstrata/check.h"
#include "storage/mutant.h"

namespace kvstrata::storage {

namespace {

// EAGAIN and EINTR of one request, and attempts in a row that move less than one unit: enough for
// a bad moment, few enough that a broken device is an error soon.
constexpr std::uint32_t retries_max = 16;
constexpr std::uint32_t idle_attempts_max = 16;

constexpr std::uint64_t offset_max = std::uint64_t{1} << 62;
constexpr std::size_t file_name_max = 200;
constexpr std::size_t open_files_max = 65'536;

// wait() counts with this at most, so that its deadline can't overflow.
constexpr Milliseconds wait_max = std::chrono::hours(24 * 365);

// run() looks again this often, and gives up the process when the back end lost track this often
// in a row: going on would free a buffer the kernel may still write to.
constexpr Milliseconds run_step = std::chrono::seconds(1);
constexpr int lost_steps_max = 16;

bool aligned(std::uint64_t value) {
  return value % io_alignment == 0;
}

const char* verb(IoOperation operation) {
  switch (operation) {
    case IoOperation::read: return "read";
    case IoOperation::write: return "write";
    case IoOperation::data_sync: return "data_sync";
  }
  return "?";
}

Milliseconds until(MonotonicTime deadline) {
  const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::system().now());
  return std::max(left, Milliseconds(0));
}

}  // namespace

bool valid_file_name(const std::string& name) {
  if (name.empty() || name.size() > file_name_max || name.front() == '.') {
    return false;
  }
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

// --- files ---------------------------------------------------------------------------------------

Result<FileHandle> Device::open(const std::string& name, bool create) {
  if (!valid_file_name(name)) {
    return Error(ErrorKind::invalid_argument, "open: not a bare file name: '" + name + "'");
  }
  if (files_.size() >= open_files_max) {
    return Error(ErrorKind::busy, "open: too many open files");
  }
  KV_ASSIGN(const FileHandle back_end, open_impl(name, create));
  // Numbers go round before one is used again, so that a closed handle is noticed.
  while (files_.contains(next_file_)) {
    next_file_ = next_file_ == std::numeric_limits<std::int32_t>::max() ? 0 : next_file_ + 1;
  }
  const FileHandle file{next_file_};
  next_file_ = next_file_ == std::numeric_limits<std::int32_t>::max() ? 0 : next_file_ + 1;
  files_.emplace(file.value, OpenFile{.back_end = back_end, .name = name});
  return file;
}

void Device::close(FileHandle file) {
  const auto found = files_.find(file.value);
  KV_CHECK(found != files_.end(), "close of a file that is not open");
  KV_CHECK(found->second.in_flight == 0, "close of a file with requests in flight");
  close_impl(found->second.back_end);
  files_.erase(found);
}

Result<Device::OpenFile*> Device::find_file(FileHandle file) {
  const auto found = files_.find(file.value);
  if (found == files_.end()) {
    return Error(ErrorKind::invalid_argument, "the file is not open");
  }
  return &found->second;
}

Status Device::allocate(FileHandle file, std::uint64_t bytes) {
  KV_ASSIGN(const OpenFile* open_file, find_file(file));
  if (bytes == 0 || !aligned(bytes) || bytes > offset_max) {
    return Error(ErrorKind::invalid_argument, "allocate: not a positive multiple of 4096");
  }
  return allocate_impl(open_file->back_end, bytes);
}

Result<std::uint64_t> Device::size(FileHandle file) {
  KV_ASSIGN(const OpenFile* open_file, find_file(file));
  return size_impl(open_file->back_end);
}

Status Device::remove(const std::string& name) {
  if (!valid_file_name(name)) {
    return Error(ErrorKind::invalid_argument, "remove: not a bare file name: '" + name + "'");
  }
  return remove_impl(name);
}

Status Device::sync_directory() {
  return sync_directory_impl();
}

Result<std::vector<std::string>> Device::list() {
  return list_impl();
}

// --- buffers -------------------------------------------------------------------------------------

Status Device::register_buffer(std::byte* buffer, std::uint64_t bytes) {
  if (buffer == nullptr || bytes == 0 || !aligned(bytes) ||
      !aligned(reinterpret_cast<std::uintptr_t>(buffer))) {
    return Error(ErrorKind::invalid_argument, "register_buffer: not aligned to 4096");
  }
  if (registered_.contains(buffer)) {
    return Error(ErrorKind::invalid_argument, "register_buffer: registered already");
  }
  Status status = register_buffer_impl(buffer, bytes);
  if (status) {
    registered_.emplace(buffer, bytes);
  } else {
    ++stats_.registration_failures;
  }
  return status;
}

void Device::unregister_buffer(std::byte* buffer) {
  const auto found = registered_.find(buffer);
  if (found == registered_.end()) {
    return;  // its registration failed, which callers need not remember
  }
  KV_CHECK(!requests_.touches(buffer, found->second),
           "unregister of a buffer with requests in flight");
  unregister_buffer_impl(buffer);
  registered_.erase(found);
}

// --- requests ------------------------------------------------------------------------------------

Status Device::check_request(const IoRequest& request) {
  KV_TRY(find_file(request.file));
  if (request.operation == IoOperation::data_sync) {
    return {};
  }
  if (request.operation != IoOperation::read && request.operation != IoOperation::write) {
    return Error(ErrorKind::invalid_argument, "submit: not an operation");
  }
  if (request.buffer == nullptr || request.bytes == 0) {
    return Error(ErrorKind::invalid_argument, "submit: a transfer needs a buffer");
  }
  if (!aligned(request.offset) || !aligned(request.bytes) ||
      !aligned(reinterpret_cast<std::uintptr_t>(request.buffer))) {
    return Error(ErrorKind::invalid_argument,
                 "submit: offset, length and buffer must be multiples of 4096");
  }
  if (request.bytes > transfer_bytes_max || request.offset > offset_max) {
    return Error(ErrorKind::too_large, "submit: a transfer is at most 1 GiB, below offset 2^62");
  }
  return {};
}

Status Device::check_room(std::size_t requests) {
  if (in_flight() + requests > queue_depth()) {
    return Error(ErrorKind::busy, "submit: more requests than the queue is deep");
  }
  requests_.reserve(queue_depth());
  return {};
}

Status Device::submit(std::span<const IoRequest> requests) {
  for (const IoRequest& request : requests) {
    KV_TRY(check_request(request));
  }
  KV_TRY(check_room(requests.size()));
  for (const IoRequest& request : requests) {
    start(request, nullptr);
  }
  flush_submissions_impl();
  return {};
}

Status Device::run(const IoRequest& request) {
  KV_TRY(check_request(request));
  KV_TRY(check_room(1));
  std::optional<Status> result;
  start(request, &result);
  flush_submissions_impl();
  for (int lost_steps = 0; !result;) {
    lost_steps = step(1, run_step) ? 0 : lost_steps + 1;
    KV_CHECK(lost_steps < lost_steps_max, "a device lost a request in flight");
  }
  return *std::move(result);
}

Result<std::size_t> Device::wait(std::vector<IoCompletion>& ended, std::size_t minimum,
                                 Milliseconds timeout) {
  minimum = std::min(minimum, in_flight());
  const MonotonicTime deadline =
      Clock::system().now() + std::clamp(timeout, Milliseconds(0), wait_max);
  for (bool first = true; requests_.active() > 0; first = false) {
    const std::size_t missing = minimum - std::min(minimum, finished_.size());
    const Milliseconds left = missing == 0 ? Milliseconds(0) : until(deadline);
    if (!first && (missing == 0 || left == Milliseconds(0))) {
      break;
    }
    if (Status status = step(missing, left); !status) {
      if (finished_.empty()) {
        return status.error();
      }
      break;  // hand out what ended; the next call meets the error again
    }
  }
  const std::size_t count = finished_.size();
  std::move(finished_.begin(), finished_.end(), std::back_inserter(ended));
  finished_.clear();
  return count;
}

void Device::start(const IoRequest& request, std::optional<Status>* result) {
  ++files_.find(request.file.value)->second.in_flight;
  start_attempt(requests_.begin(request, result));
}

void Device::start_attempt(RequestTable::Slot& slot) {
  IoRequest attempt = slot.request;
  attempt.file = files_.find(slot.request.file.value)->second.back_end;
  if (attempt.operation != IoOperation::data_sync) {
    attempt.offset += slot.done_bytes;
    attempt.buffer += slot.done_bytes;
    attempt.bytes -= slot.done_bytes;
  }
  const std::uint64_t user_data = requests_.begin_attempt(slot);
  if (Status status = submit_impl(attempt, user_data); !status) {
    requests_.end_attempt(user_data);
    finish(slot, status.error().with_context(describe(slot)));
  }
}

Status Device::step(std::size_t minimum, Milliseconds timeout) {
  raw_.clear();
  const Result<std::size_t> count = wait_impl(raw_, minimum, timeout);
  for (const RawCompletion& raw : raw_) {
    attempt_ended(raw);
  }
  flush_submissions_impl();  // attempts that attempt_ended() started
  return count ? Status() : Status(count.error());
}

void Device::attempt_ended(const RawCompletion& raw) {
  RequestTable::Slot* slot = requests_.end_attempt(raw.user_data);
  if (slot == nullptr) {
    ++stats_.stale_completions;
  } else if (raw.result < 0) {
    attempt_failed(*slot, static_cast<int>(-std::max<std::int64_t>(raw.result, -4095)));
  } else if (slot->request.operation == IoOperation::data_sync) {
    finish(*slot, {});
  } else {
    attempt_moved(*slot, static_cast<std::uint64_t>(raw.result));
  }
}

void Device::attempt_failed(RequestTable::Slot& slot, int error_number) {
  // A failed sync may have dropped dirty pages already: a second one that succeeds would lie.
  if (slot.request.operation == IoOperation::data_sync && slot.retries == 0 &&
      mutant(Mutant::retried_sync)) {
    ++slot.retries;
    start_attempt(slot);
    return;
  }
  const bool transient = error_number == EAGAIN || error_number == EINTR;
  if (transient && slot.request.operation != IoOperation::data_sync && slot.retries < retries_max) {
    ++slot.retries;
    ++stats_.retries;
    start_attempt(slot);
    return;
  }
  finish(slot, error_from_errno(error_number, describe(slot)));
}

void Device::attempt_moved(RequestTable::Slot& slot, std::uint64_t bytes) {
  const std::uint64_t wanted = slot.request.bytes - slot.done_bytes;
  const bool read_enough = slot.request.operation == IoOperation::read && bytes < wanted &&
                           mutant(Mutant::short_read_as_full);
  if (bytes == wanted || read_enough) {
    finish(slot, {});
    return;
  }
  if (bytes > wanted) {
    finish(slot, Error(ErrorKind::io, describe(slot) + ": more bytes reported than asked for"));
    return;
  }
  if (bytes == 0 && slot.request.operation == IoOperation::read) {
    finish(slot, Error(ErrorKind::io, describe(slot) + ": the file ends before the read does"));
    return;
  }
  ++stats_.short_transfers;
  // What moved beyond the last whole unit is moved again: O_DIRECT can't begin in between.
  const std::uint64_t whole = bytes - bytes % io_alignment;
  slot.done_bytes += whole;
  slot.idle_attempts = whole > 0 ? 0 : slot.idle_attempts + 1;
  if (slot.idle_attempts >= idle_attempts_max) {
    finish(slot, Error(ErrorKind::io, describe(slot) + ": stays short of the next 4096 bytes"));
    return;
  }
  start_attempt(slot);
}

void Device::finish(RequestTable::Slot& slot, Status status) {
  const IoRequest& request = slot.request;
  switch (request.operation) {
    case IoOperation::read:
      ++stats_.reads;
      stats_.read_bytes += status ? request.bytes : 0;
      break;
    case IoOperation::write:
      ++stats_.writes;
      stats_.written_bytes += status ? request.bytes : 0;
      break;
    case IoOperation::data_sync: ++stats_.syncs; break;
  }
  stats_.errors += status ? 0 : 1;
  --files_.find(request.file.value)->second.in_flight;
  if (slot.result != nullptr) {
    *slot.result = std::move(status);
  } else {
    finished_.push_back({.tag = request.tag, .status = std::move(status)});
  }
  requests_.end(slot);
}

std::string Device::describe(const RequestTable::Slot& slot) const {
  const IoRequest& request = slot.request;
  std::string text =
      std::string(verb(request.operation)) + " of " + files_.find(request.file.value)->second.name;
  if (request.operation != IoOperation::data_sync) {
    text +=
        " at " + std::to_string(request.offset) + ", " + std::to_string(request.bytes) + " bytes";
  }
  return text;
}

}  // namespace kvstrata::storage
