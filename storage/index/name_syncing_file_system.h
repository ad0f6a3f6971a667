// sync_names(): a RocksDB file system on which the first sync of a new file makes its name durable
// too. RocksDB names files in files it syncs (CURRENT names the manifest, the manifest the tables)
// before it syncs the directory they are in. Most file systems keep names in order all the same;
// POSIX promises nothing of the kind, and without it a power cut can leave an index that does not
// open.
#pragma once

#include <memory>

namespace rocksdb {
class FileSystem;
}

namespace kvstrata::storage {

std::shared_ptr<rocksdb::FileSystem> sync_names(std::shared_ptr<rocksdb::FileSystem> target);

}  // namespace kvstrata::storage
