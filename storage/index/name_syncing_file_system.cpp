#include "storage/index/name_syncing_file_system.h"

#include <rocksdb/file_system.h>

#include <atomic>
#include <string>

namespace kvstrata::storage {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class NamedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  NamedFile(std::unique_ptr<rocksdb::FSWritableFile> target, rocksdb::FileSystem& file_system,
            std::string directory)
      : FSWritableFileOwnerWrapper(std::move(target)),
        file_system_(file_system),
        directory_(std::move(directory)) {}

  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = FSWritableFileOwnerWrapper::Sync(options, debug);
    return status.ok() ? sync_name(options, debug) : status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = FSWritableFileOwnerWrapper::Fsync(options, debug);
    return status.ok() ? sync_name(options, debug) : status;
  }

 private:
  // Syncs may overlap; the worst is that the directory is synced twice.
  IOStatus sync_name(const IOOptions& options, IODebugContext* debug) {
    if (named_) return IOStatus::OK();
    std::unique_ptr<rocksdb::FSDirectory> directory;
    IOStatus status = file_system_.NewDirectory(directory_, options, &directory, debug);
    if (status.ok()) status = directory->Fsync(options, debug);
    named_ = status.ok();
    return status;
  }

  rocksdb::FileSystem& file_system_;
  const std::string directory_;
  std::atomic<bool> named_{false};
};

class NameSyncingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit NameSyncingFileSystem(const std::shared_ptr<rocksdb::FileSystem>& target)
      : FileSystemWrapper(target) {}

  const char* Name() const override { return "name syncing"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    IOStatus status = target()->NewWritableFile(path, options, &file, debug);
    if (!status.ok()) return status;
    const std::string directory = path.substr(0, path.rfind('/'));
    *result = std::make_unique<NamedFile>(std::move(file), *target(), directory);
    return status;
  }
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> sync_names(std::shared_ptr<rocksdb::FileSystem> target) {
  return std::make_shared<NameSyncingFileSystem>(target);
}

}  // namespace kvstrata::storage
