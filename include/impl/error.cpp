#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kvstrata/check.h"
#include "kvstrata/result.h"

namespace kvstrata {

void check_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "kvstrata: bug at %s:%d: %s (%s)\n", file, line, why, condition);
  std::abort();
}

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid_argument";
    case ErrorKind::not_found: return "not_found";
    case ErrorKind::exists: return "exists";
    case ErrorKind::conflict: return "conflict";
    case ErrorKind::busy: return "busy";
    case ErrorKind::too_large: return "too_large";
    case ErrorKind::out_of_memory: return "out_of_memory";
    case ErrorKind::out_of_space: return "out_of_space";
    case ErrorKind::io: return "io";
    case ErrorKind::corrupt: return "corrupt";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::permission_denied: return "permission_denied";
    case ErrorKind::unauthenticated: return "unauthenticated";
    case ErrorKind::lease_expired: return "lease_expired";
    case ErrorKind::epoch_changed: return "epoch_changed";
    case ErrorKind::deadline_exceeded: return "deadline_exceeded";
    case ErrorKind::cancelled: return "cancelled";
    case ErrorKind::protocol: return "protocol";
    case ErrorKind::unavailable: return "unavailable";
    case ErrorKind::locked: return "locked";
    case ErrorKind::internal: return "internal";
  }
  return "unknown";
}

namespace {

ErrorKind kind_of_errno(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return ErrorKind::out_of_space;
    case EACCES:
    case EPERM: return ErrorKind::permission_denied;
    case ENOENT: return ErrorKind::not_found;
    case ENOMEM: return ErrorKind::out_of_memory;
    default: return ErrorKind::io;
  }
}

}  // namespace

Error error_from_errno(int error_number, std::string_view what) {
  std::string message(what);
  message += ": ";
  message += std::strerror(error_number);  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
  return {kind_of_errno(error_number), std::move(message)};
}

}  // namespace kvstrata
