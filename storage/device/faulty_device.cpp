#include "storage/device/faulty_device.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "kvstrata/check.h"

namespace kvstrata::storage {

namespace {

// While something is held, the inner device is left this often to see whether it was released.
constexpr Milliseconds look_again{10};

FaultTarget target_of(IoOperation operation) {
  switch (operation) {
    case IoOperation::read: return FaultTarget::read;
    case IoOperation::write: return FaultTarget::write;
    case IoOperation::data_sync: return FaultTarget::data_sync;
  }
  return FaultTarget::read;
}

}  // namespace

Result<std::unique_ptr<Device>> FaultyDevice::clone() const {
  KV_ASSIGN(auto inner_clone, inner().clone());
  return std::unique_ptr<Device>(std::make_unique<FaultyDevice>(std::move(inner_clone), script_));
}

// --- what is asked for by name -------------------------------------------------------------------

Status FaultyDevice::metadata(FaultTarget target, const std::string& what) {
  if (const std::optional<Fault> fault = script_->next(target)) {
    return error_from_errno(fault->error_number, what);
  }
  return {};
}

Result<FileHandle> FaultyDevice::open_impl(const std::string& name, bool create) {
  KV_TRY(metadata(FaultTarget::open, "open " + name));
  return DeviceDecorator::open_impl(name, create);
}

Status FaultyDevice::allocate_impl(FileHandle file, std::uint64_t bytes) {
  KV_TRY(metadata(FaultTarget::allocate, "allocate " + std::to_string(bytes) + " bytes"));
  return DeviceDecorator::allocate_impl(file, bytes);
}

Result<std::uint64_t> FaultyDevice::size_impl(FileHandle file) {
  KV_TRY(metadata(FaultTarget::size, "fstat"));
  return DeviceDecorator::size_impl(file);
}

Status FaultyDevice::remove_impl(const std::string& name) {
  KV_TRY(metadata(FaultTarget::remove, "remove " + name));
  return DeviceDecorator::remove_impl(name);
}

Status FaultyDevice::sync_directory_impl() {
  KV_TRY(metadata(FaultTarget::sync_directory, "sync of directory"));
  return DeviceDecorator::sync_directory_impl();
}

Result<std::vector<std::string>> FaultyDevice::list_impl() {
  KV_TRY(metadata(FaultTarget::list, "list"));
  return DeviceDecorator::list_impl();
}

Status FaultyDevice::register_buffer_impl(std::byte* buffer, std::uint64_t bytes) {
  KV_TRY(metadata(FaultTarget::register_buffer, "register_buffer"));
  return DeviceDecorator::register_buffer_impl(buffer, bytes);
}

// --- attempts ------------------------------------------------------------------------------------

Status FaultyDevice::submit_impl(const IoRequest& request, std::uint64_t user_data) {
  KV_TRY(metadata(FaultTarget::submission, "submit"));
  const std::optional<Fault> fault = script_->next(target_of(request.operation), request.bytes);
  if (!fault) {
    return DeviceDecorator::submit_impl(request, user_data);
  }
  switch (fault->action) {
    case FaultAction::fail:
      made_up_.push_back({.user_data = user_data, .result = -fault->error_number});
      return {};
    case FaultAction::tear:
    case FaultAction::cut: return submit_cut(request, user_data, *fault);
    default: break;
  }
  KV_TRY(DeviceDecorator::submit_impl(request, user_data));
  struck_[user_data] = {.fault = *fault, .request = request, .releases_seen = script_->releases()};
  return {};
}

// Moves whole units that cover the cut, as direct I/O must, and keeps what a read would overwrite
// beyond it.
Status FaultyDevice::submit_cut(const IoRequest& request, std::uint64_t user_data,
                                const Fault& fault) {
  KV_CHECK(request.operation != IoOperation::data_sync, "a sync moves no bytes");
  const bool fewer = fault.bytes < request.bytes;
  const std::uint64_t bytes = fewer ? fault.bytes : request.bytes / 2;
  if (bytes == 0) {
    const bool torn = fault.action == FaultAction::tear;
    made_up_.push_back({.user_data = user_data, .result = torn ? -fault.error_number : 0});
    return {};
  }
  IoRequest part = request;
  part.bytes = round_up(bytes, io_alignment);
  Struck struck{.fault = fault, .request = request, .bytes = bytes};
  if (request.operation == IoOperation::read) {
    struck.beyond.assign(request.buffer + bytes, request.buffer + part.bytes);
  }
  KV_TRY(DeviceDecorator::submit_impl(part, user_data));
  struck_[user_data] = std::move(struck);
  return {};
}

Result<std::size_t> FaultyDevice::wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                            Milliseconds timeout) {
  const std::size_t before = ended.size();
  const MonotonicTime deadline = Clock::system().now() + (minimum == 0 ? Milliseconds(0) : timeout);
  for (bool first = true;; first = false) {
    for (const RawCompletion& completion : std::exchange(made_up_, {})) {
      hand_out(completion, ended);
    }
    const std::uint64_t releases = script_->releases();
    let_go(ended);
    const std::size_t count = ended.size() - before;
    const auto left = std::max(std::chrono::ceil<Milliseconds>(deadline - Clock::system().now()),
                               Milliseconds(0));
    const bool enough = count > 0 && count >= minimum;
    if (!first && (enough || left == Milliseconds(0))) {
      return count;
    }
    if (inner_attempts() > 0) {
      const bool wait = !enough && minimum > 0;
      scratch_.clear();
      const Result<std::size_t> inner_count =
          DeviceDecorator::wait_impl(scratch_, wait ? 1 : 0,
                                     !wait           ? Milliseconds(0)
                                     : held_.empty() ? left
                                                     : std::min(left, look_again));
      for (const RawCompletion& completion : scratch_) {
        complete(completion, ended);
      }
      if (!inner_count && ended.size() == before) {
        return inner_count.error();
      }
    } else if (held_.empty() || enough || minimum == 0) {
      return count;
    } else {
      script_->wait_for_release(releases, left);
    }
  }
}

void FaultyDevice::complete(RawCompletion completion, std::vector<RawCompletion>& ended) {
  const auto found = struck_.find(completion.user_data);
  if (found == struck_.end()) {
    hand_out(completion, ended);
    return;
  }
  const Struck struck = std::move(found->second);
  struck_.erase(found);
  switch (struck.fault.action) {
    case FaultAction::delay:
      held_.push_back({.completion = completion, .completions_left = struck.fault.completions + 1});
      return;
    case FaultAction::hold:
      held_.push_back({.completion = completion, .releases_seen = struck.releases_seen});
      return;
    case FaultAction::duplicate:
      hand_out(completion, ended);
      hand_out(completion, ended);
      return;
    default:
      apply(struck, completion);
      hand_out(completion, ended);
      return;
  }
}

void FaultyDevice::apply(const Struck& struck, RawCompletion& completion) {
  const IoRequest& request = struck.request;
  if (completion.result < 0) {
    return;  // it failed by itself
  }
  switch (struck.fault.action) {
    case FaultAction::cut:
      std::copy(struck.beyond.begin(), struck.beyond.end(), request.buffer + struck.bytes);
      completion.result = std::min(completion.result, static_cast<std::int64_t>(struck.bytes));
      break;
    case FaultAction::tear: completion.result = -struck.fault.error_number; break;
    case FaultAction::overreport:
      completion.result += static_cast<std::int64_t>(io_alignment);
      break;
    case FaultAction::flip:
      if (request.operation == IoOperation::read && completion.result > 0) {
        request.buffer[completion.result / 2] ^= std::byte{0x10};
      }
      break;
    default: break;
  }
}

void FaultyDevice::hand_out(const RawCompletion& completion, std::vector<RawCompletion>& ended) {
  ended.push_back(completion);
  for (Held& held : held_) {
    held.completions_left -= held.completions_left > 1 ? 1 : 0;
  }
}

// Delayed ones whose turn has come, all delayed ones when nothing else can end, released ones.
void FaultyDevice::let_go(std::vector<RawCompletion>& ended) {
  const std::uint64_t releases = script_->releases();
  const bool idle = inner_attempts() == 0;
  const auto due = [&](const Held& held) {
    return held.completions_left == 0 ? held.releases_seen != releases
                                      : held.completions_left == 1 || idle;
  };
  for (const Held& held : std::exchange(held_, {})) {
    if (due(held)) {
      ended.push_back(held.completion);
    } else {
      held_.push_back(held);
    }
  }
}

}  // namespace kvstrata::storage
