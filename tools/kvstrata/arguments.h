// The command line of kvstrata.
#pragma once

namespace kvstrata::cli {

/// Parses, runs the command and returns its exit code.
int run(int argc, char** argv);

}  // namespace kvstrata::cli
