// A Power is the one switch of a simulated machine. Every I/O operation and every named point of
// the store passes it; at the one that was chosen, it goes off: the disks lose what was not synced
// and answer EIO until the machine is switched on again.
//
// Threads: any. Lifetime: outlives the disks' users.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace kvstrata::simulation {

class Power {
 public:
  /// `cut` makes the disks lose what they may; called once for each time the power goes off.
  explicit Power(std::function<void()> cut) : cut_(std::move(cut)) {}

  bool on() const { return on_; }
  /// Goes on, with nothing planned.
  void switch_on();
  void switch_off();

  /// Goes off just before the `nth` operation or passing of a point from now on, counted from 1.
  void cut_at_operation(std::uint64_t nth);
  void cut_at_point(std::string point, std::uint64_t nth);

  /// An I/O operation is about to start. May switch off; the caller holds no lock of a disk.
  void operation();
  void point(std::string_view name);

  std::uint64_t operations() const { return operations_; }  ///< ever
  std::string what_cut() const;  ///< the point or operation it went off at

 private:
  void cut(const std::string& why);

  const std::function<void()> cut_;
  std::atomic<bool> on_{true};
  std::atomic<std::uint64_t> operations_{0};
  mutable std::mutex mutex_;
  std::uint64_t operations_left_ = 0;  // 0: no cut planned
  std::uint64_t points_left_ = 0;
  std::string point_;
  std::string why_;
};

}  // namespace kvstrata::simulation
