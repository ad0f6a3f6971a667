// How kvstratad ends; doc/configuration.md says the same to operators.
#pragma once

namespace kvstrata::daemon::exit_code {

inline constexpr int success = 0;  ///< drained after SIGTERM or SIGINT, or only asked to print
inline constexpr int failure = 1;  ///< could not start or go on; or a second signal cut the drain
inline constexpr int usage = 2;    ///< wrong arguments or configuration
inline constexpr int locked = 3;   ///< another process has the store or the socket

}  // namespace kvstrata::daemon::exit_code
