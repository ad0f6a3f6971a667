// InlineMemory bounds the payloads that are being received or worked on, over all connections, and
// reuses their buffers. Who finds no room waits in line; a payload larger than the whole bound is
// let in when nothing else is.
//
// Threads: claims on the control thread; buffers may be dropped on any thread. Lifetime: shared, as
// buffers may outlive the server.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/engine/executor.h"
#include "kvstrata/bytes.h"

namespace kvstrata::daemon {

class InlineMemory : public std::enable_shared_from_this<InlineMemory> {
 public:
  /// A place in line; dropping it leaves the line or gives the memory back.
  class Claim {
   public:
    explicit Claim(std::uint64_t bytes, std::function<void()> wake)
        : bytes_(bytes), wake_(std::move(wake)) {}
    bool granted() const { return granted_; }

   private:
    friend class InlineMemory;
    std::uint64_t bytes_;
    std::function<void()> wake_;
    bool granted_ = false;
  };
  using ClaimPtr = std::shared_ptr<Claim>;

  static std::shared_ptr<InlineMemory> create(std::uint64_t bytes_max, Executor& control);

  /// Asks for `bytes`. Granted at once if there is room and nobody waits; else `wake` runs later on
  /// the control thread.
  ClaimPtr claim(std::uint64_t bytes, std::function<void()> wake);
  /// The granted memory: capacity for the claim's bytes, pages untouched where new. Given back when
  /// the last copy of the pointer goes. Null if the system has no memory; the claim has ended then.
  std::shared_ptr<ByteVector> take(const ClaimPtr& claim);
  /// Leaves the line, or gives back what was granted and not taken.
  void cancel(const ClaimPtr& claim);

  std::uint64_t used_bytes() const;
  std::size_t waiting() const;

 private:
  InlineMemory(std::uint64_t bytes_max, Executor& control)
      : bytes_max_(bytes_max), control_(control) {}

  bool has_room(std::uint64_t bytes) const;
  std::unique_ptr<ByteVector> find_buffer(std::uint64_t bytes);
  void give_back(std::unique_ptr<ByteVector> buffer, std::uint64_t bytes);
  void post_grants();
  void grant_waiting();

  const std::uint64_t bytes_max_;
  Executor& control_;
  mutable std::mutex mutex_;
  std::uint64_t used_bytes_ = 0;
  std::deque<ClaimPtr> line_;
  bool grants_posted_ = false;
  std::vector<std::unique_ptr<ByteVector>> spare_;
  std::uint64_t spare_bytes_ = 0;
};

}  // namespace kvstrata::daemon
