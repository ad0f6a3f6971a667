// The command line of `kvstrata codec`.
#pragma once

#include <functional>

#include "tools/kvstrata/commands.h"

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}

namespace kvstrata::cli {

/// Adds the command; parsing fills `options` and sets `command` to what runs it. Both outlive
/// `app`.
void add_codec(CLI::App& app, CodecOptions& options, std::function<int()>& command);

}  // namespace kvstrata::cli
