#include "judge.h"

namespace kvstrata::test {

Verdict judge(const KeyState& state, Seen seen, bool too_young_to_evict) {
  switch (seen) {
    case Seen::wrong_bytes: return Verdict::corrupt;
    case Seen::bytes_of_other_tenant: return Verdict::cross_tenant;
    case Seen::own_bytes:
      if (state.foreign) return Verdict::cross_tenant;
      return state.may_exist && !state.removed ? Verdict::fine : Verdict::phantom;
    case Seen::missing: break;
  }
  if (!state.durable) return Verdict::fine;
  return state.pinned || too_young_to_evict ? Verdict::lost : Verdict::evicted;
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fine: return "fine";
    case Verdict::evicted: return "evicted";
    case Verdict::corrupt: return "corrupt";
    case Verdict::phantom: return "phantom";
    case Verdict::lost: return "lost";
    case Verdict::cross_tenant: return "cross-tenant";
  }
  return "";
}

void Verdicts::count(Verdict verdict) {
  switch (verdict) {
    case Verdict::fine: break;
    case Verdict::evicted: ++evicted; break;
    case Verdict::corrupt: ++corrupt; break;
    case Verdict::phantom: ++phantom; break;
    case Verdict::lost: ++lost; break;
    case Verdict::cross_tenant: ++cross_tenant; break;
  }
}

void Verdicts::add(const Verdicts& other) {
  corrupt += other.corrupt;
  phantom += other.phantom;
  lost += other.lost;
  cross_tenant += other.cross_tenant;
  evicted += other.evicted;
  found += other.found;
  must_keep += other.must_keep;
}

}  // namespace kvstrata::test
