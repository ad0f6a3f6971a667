// A History remembers when each version of a value was put, and when its key was removed, so that
// every read can be judged: was there a moment within it at which the key had that version?
//
// Versions are unique, so a version that once was gone can't come back. Moments are numbers that
// rise with every event of any key. Threads: safe from any; each history has a lock of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace kvstrata::test {

using Moment = std::uint64_t;

/// Moments of one test run.
class Moments {
 public:
  Moment next() { return last_.fetch_add(1) + 1; }

 private:
  std::atomic<Moment> last_{0};
};

enum class PutEnd : std::uint8_t {
  stored,   ///< from its end at the latest until it is gone
  refused,  ///< never there
  unknown,  ///< its client gave up: there at any time after its begin, or never
};

class History {
 public:
  explicit History(Moments& moments) : moments_(moments) {}

  void put_begins(std::uint64_t version);
  void put_ends(std::uint64_t version, PutEnd end);
  Moment removal_begins();
  /// Answered: the versions that were there when it began are gone.
  void removal_ends(Moment began);

  Moment read_begins();
  /// Whether a read that began then and ends now may have seen `version`.
  bool may_have_seen(std::uint64_t version, Moment began) const;
  /// After the last question about it.
  void read_ends(Moment began);

  std::size_t size() const;  ///< of what it remembers

 private:
  static constexpr Moment running = UINT64_MAX;
  struct Put {
    Moment began = 0;
    Moment ended = running;
    bool stored = false;
  };

  bool gone_before(const Put& put, Moment moment) const;
  void forget_what_no_read_can_see();

  Moments& moments_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Put> puts_;  ///< by version
  std::map<Moment, Moment> removals_;  ///< begin to end; running ones are not in it
  std::multiset<Moment> reads_;        ///< begins of those that run
};

}  // namespace kvstrata::test
