#include "storage/device/fault_script.h"

#include <algorithm>
#include <cerrno>

#include "kvstrata/check.h"

namespace kvstrata::storage {

namespace {

constexpr std::uint32_t random_delay_max = 8;

std::size_t index_of(FaultTarget target) {
  const auto index = static_cast<std::size_t>(target);
  KV_CHECK(index < fault_target_count, "not a fault target");
  return index;
}

}  // namespace

void FaultScript::add(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  KV_CHECK(fault.nth >= 1, "operations are counted from 1");
  faults_.push_back({.fault = fault, .at = counts_[index_of(fault.target)] + fault.nth});
}

void FaultScript::set_rates(const FaultRates& rates) {
  const std::lock_guard lock(mutex_);
  rates_ = rates;
}

void FaultScript::clear() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
  rates_ = {};
}

std::optional<Fault> FaultScript::next(FaultTarget target, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = ++counts_[index_of(target)];
  const auto strikes = [&](const Pending& pending) {
    return pending.fault.target == target &&
           (pending.fault.from_then_on ? number >= pending.at : number == pending.at);
  };
  const auto found = std::find_if(faults_.begin(), faults_.end(), strikes);
  std::optional<Fault> fault;
  if (found != faults_.end()) {
    fault = found->fault;
    if (!fault->from_then_on) {
      faults_.erase(found);
    }
  } else {
    fault = by_chance(target, bytes);
  }
  injected_ += fault ? 1 : 0;
  return fault;
}

std::optional<Fault> FaultScript::by_chance(FaultTarget target, std::uint64_t bytes) {
  const bool is_read = target == FaultTarget::read;
  const bool is_write = target == FaultTarget::write;
  if (!is_read && !is_write && target != FaultTarget::data_sync) {
    return std::nullopt;
  }
  // One draw decides among all, so that the chances add up.
  double draw = std::uniform_real_distribution<double>(0, 1)(random_);
  const auto strikes = [&draw](double chance) {
    draw -= chance;
    return draw < 0 && chance > 0;
  };
  const double fails = is_read    ? rates_.read_fails
                       : is_write ? rates_.write_fails
                                  : rates_.sync_fails;
  if (strikes(fails)) {
    return Fault{.target = target, .action = FaultAction::fail, .error_number = EIO};
  }
  if (target != FaultTarget::data_sync && strikes(rates_.again)) {
    return Fault{.target = target, .action = FaultAction::fail, .error_number = EAGAIN};
  }
  if (bytes > 1 && strikes(is_read ? rates_.read_cut : rates_.write_cut)) {
    // 1 to bytes-1: a read of 0 would be the end of the file, and final.
    return Fault{
        .target = target, .action = FaultAction::cut, .bytes = 1 + random_() % (bytes - 1)};
  }
  if (strikes(rates_.delay)) {
    return Fault{.target = target,
                 .action = FaultAction::delay,
                 .completions = 1 + static_cast<std::uint32_t>(random_() % random_delay_max)};
  }
  if (strikes(rates_.duplicate)) {
    return Fault{.target = target, .action = FaultAction::duplicate};
  }
  return std::nullopt;
}

void FaultScript::release() {
  const std::lock_guard lock(mutex_);
  ++releases_;
  released_.notify_all();
}

std::uint64_t FaultScript::releases() const {
  const std::lock_guard lock(mutex_);
  return releases_;
}

void FaultScript::wait_for_release(std::uint64_t seen, Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  released_.wait_for(lock, timeout, [&] { return releases_ != seen; });
}

std::uint64_t FaultScript::operations(FaultTarget target) const {
  const std::lock_guard lock(mutex_);
  return counts_[index_of(target)];
}

std::uint64_t FaultScript::injected() const {
  const std::lock_guard lock(mutex_);
  return injected_;
}

}  // namespace kvstrata::storage
