// must(): a benchmark ends with the message of a failure.
#pragma once

#include <string>
#include <utility>

#include "bench/common/process.h"
#include "kvstrata/result.h"

namespace kvstrata::bench {

inline void must(const Status& status, const char* what) {
  if (!status) fail(std::string(what) + ": " + status.error().message());
}
template <typename T>
T must(Result<T> result, const char* what) {
  must(result ? Status() : Status(result.error()), what);
  return std::move(*result);
}

}  // namespace kvstrata::bench
