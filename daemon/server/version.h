// The version of this build; meson.build gives it.
#pragma once

namespace kvstrata::daemon {

#ifndef KVSTRATA_VERSION
#define KVSTRATA_VERSION "unversioned"
#endif

inline constexpr const char* version = KVSTRATA_VERSION;

}  // namespace kvstrata::daemon
