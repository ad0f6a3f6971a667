// What `kvstrata doctor` looks at of the disk tier: where its directory lies, and what it has been
// through.
#pragma once

#include <string>
#include <vector>

#include "kvstrata/client.h"
#include "tools/kvstrata/checks.h"

namespace kvstrata::cli {

/// `directory` exists.
Check check_file_system(const std::string& directory);
Check check_drive(const std::string& directory);
/// What an index that could not be opened left behind in a store's directory.
Check check_left_aside(const std::string& directory);
/// What the daemon says of its disk tier.
Check check_disk_tier(Client& client);

}  // namespace kvstrata::cli
