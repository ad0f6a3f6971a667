// Exit codes of kvstrata, documented in doc/cli.md.
#pragma once

#include "kvstrata/result.h"

namespace kvstrata::cli {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;  ///< the daemon or the system refused; the message says why
inline constexpr int exit_usage = 2;   ///< the command line makes no sense
inline constexpr int exit_unreachable = 3;  ///< no daemon answers
inline constexpr int exit_missing = 4;      ///< the key, block or namespace does not exist
inline constexpr int exit_partial = 5;  ///< done in part: something is pinned, leased or missing
inline constexpr int exit_damaged = 6;  ///< verify found damaged blocks, doctor found errors

/// Prints "kvstrata: message" and returns the exit code for its kind.
int report(const Error& error);

}  // namespace kvstrata::cli
