// KV_CHECK: an invariant that holds in every build. A broken one is a bug in KVStrata, never a
// fault of input; it prints where and why, then aborts.
#pragma once

namespace kvstrata {

[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace kvstrata

#define KV_CHECK(condition, why)                                     \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::kvstrata::check_failed(#condition, why, __FILE__, __LINE__); \
    }                                                                \
  } while (false)
