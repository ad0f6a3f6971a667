// simulated_environment(): RocksDB's view of a machine whose files lie on a SimulatedDisk. Threads
// and clocks are the real ones.
#pragma once

#include <memory>

#include "tests/simulation/simulated_disk.h"

namespace rocksdb {
class Env;
}

namespace kvstrata::simulation {

/// The disk outlives the environment, the environment the databases opened in it.
std::shared_ptr<rocksdb::Env> simulated_environment(SimulatedDisk& disk);

}  // namespace kvstrata::simulation
