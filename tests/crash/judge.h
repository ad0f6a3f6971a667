// What is known of a key, what a read of it showed, and what follows: the rules by which a crash
// test judges the daemon. doc/crash-testing.md tells them in words. Stateless; any thread.
#pragma once

#include <cstdint>

namespace kvstrata::test {

/// A KeyState is what the journal knows of one key of one tenant.
struct KeyState {
  bool foreign = false;  ///< only the other tenant ever puts it
  bool may_exist = false;
  bool durable = false;  ///< a FLUSH or durable put that covers it was answered, no removal since
  bool pinned = false;   ///< and it was pinned: the daemon must keep it
  bool removed = false;  ///< a removal was answered in this life of the daemon, no put since
  std::uint64_t put_at = 0;  ///< bytes all clients had begun to put before it
};

enum class Seen : std::uint8_t { missing, own_bytes, bytes_of_other_tenant, wrong_bytes };

enum class Verdict : std::uint8_t { fine, evicted, corrupt, phantom, lost, cross_tenant };

/// `too_young_to_evict`: so little was put since that reclaim, oldest segment first, can't have
/// reached it.
Verdict judge(const KeyState& state, Seen seen, bool too_young_to_evict);

const char* name_of(Verdict verdict);

struct Verdicts {
  std::uint64_t corrupt = 0, phantom = 0, lost = 0, cross_tenant = 0;
  std::uint64_t evicted = 0;    ///< durable and missing, as a cache may
  std::uint64_t found = 0;      ///< read back with the right bytes
  std::uint64_t must_keep = 0;  ///< of all keys judged, those that had to be there

  void count(Verdict verdict);
  void add(const Verdicts& other);
  bool clean() const { return corrupt + phantom + lost + cross_tenant == 0; }
};

}  // namespace kvstrata::test
