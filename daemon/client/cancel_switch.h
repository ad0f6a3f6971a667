// A CancelSwitch lets any thread end the call another thread is in. begin() and end() are the
// calling thread's, request() is anybody's. Outlives the calls.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/client/file_descriptor.h"
#include "kvstrata/result.h"

namespace kvstrata::client {

class CancelSwitch {
 public:
  Status open();

  void begin() { call_.fetch_add(1); }  // odd: in a call
  void end() { call_.fetch_add(1); }

  /// Cancels the call in progress when it is asked, if any; never a later one.
  void request();
  bool requested() const { return requested_for_.load() == call_.load(); }

  int fd() const { return wake_.get(); }  ///< readable after request()
  void drain() const;

 private:
  FileDescriptor wake_;
  std::atomic<std::uint64_t> call_{0};
  std::atomic<std::uint64_t> requested_for_{UINT64_MAX};
};

}  // namespace kvstrata::client
