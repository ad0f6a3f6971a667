// PlainFloats: while one is alive, the thread rounds to nearest and keeps subnormals, whatever its
// host has set. Both ends of a codec must compute the same.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kvstrata::codec {

class PlainFloats {
 public:
#if defined(__x86_64__)
  PlainFloats() : before_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~PlainFloats() { _mm_setcsr(before_); }
#else
  PlainFloats() = default;
  ~PlainFloats() = default;
#endif
  PlainFloats(const PlainFloats&) = delete;
  PlainFloats& operator=(const PlainFloats&) = delete;

 private:
#if defined(__x86_64__)
  unsigned before_;
#endif
};

}  // namespace kvstrata::codec
