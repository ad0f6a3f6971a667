#include "tests/simulation/power.h"

namespace kvstrata::simulation {

void Power::switch_on() {
  const std::lock_guard lock(mutex_);
  operations_left_ = 0;
  points_left_ = 0;
  why_.clear();
  on_ = true;
}

void Power::switch_off() {
  const std::lock_guard lock(mutex_);
  if (on_) cut("by hand");
}

void Power::cut_at_operation(std::uint64_t nth) {
  const std::lock_guard lock(mutex_);
  operations_left_ = nth;
}

void Power::cut_at_point(std::string point, std::uint64_t nth) {
  const std::lock_guard lock(mutex_);
  point_ = std::move(point);
  points_left_ = nth;
}

void Power::operation() {
  ++operations_;
  const std::lock_guard lock(mutex_);
  if (on_ && operations_left_ > 0 && --operations_left_ == 0) cut("an operation");
}

void Power::point(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (on_ && points_left_ > 0 && name == point_ && --points_left_ == 0) cut(point_);
}

std::string Power::what_cut() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

// Everything that was in flight ends with the disks as they were at one moment: the switch is off
// only when they are, and operations that begin meanwhile wait for the lock.
void Power::cut(const std::string& why) {
  why_ = why;
  cut_();
  on_ = false;
}

}  // namespace kvstrata::simulation
