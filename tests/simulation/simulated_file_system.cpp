#include "tests/simulation/simulated_file_system.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace kvstrata::simulation {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus status_of(std::int64_t result, const std::string& what) {
  if (result >= 0) return IOStatus::OK();
  switch (-result) {
    case ENOENT: return IOStatus::PathNotFound(what);
    case ENOSPC: return IOStatus::NoSpace(what);
    default: return IOStatus::IOError(what, "errno " + std::to_string(-result));
  }
}

// Reads all of it, or what there is up to the end of the file.
IOStatus read_into(SimulatedDisk& disk, const SimulatedDisk::File& file, std::uint64_t offset,
                   std::size_t bytes, Slice* result, char* scratch) {
  const std::int64_t count = disk.read(file, offset, bytes, scratch);
  *result = Slice(scratch, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  return status_of(count, "read");
}

// RocksDB writes a directory with and without a slash at its end.
std::string plain(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// RocksDB writes its options down for people, and goes on without where that fails. Spelling them
// out takes longer than everything else a small store does.
bool holds_options(const std::string& path) {
  return path.find("/OPTIONS-") != std::string::npos;
}

class SequentialFile final : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(SimulatedDisk& disk, SimulatedDisk::FilePointer file)
      : disk_(disk), file_(std::move(file)) {}

  IOStatus Read(size_t bytes, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    IOStatus status = read_into(disk_, *file_, at_, bytes, result, scratch);
    at_ += result->size();
    return status;
  }
  IOStatus Skip(uint64_t bytes) override {
    at_ += bytes;
    return IOStatus::OK();
  }

 private:
  SimulatedDisk& disk_;
  const SimulatedDisk::FilePointer file_;
  std::uint64_t at_ = 0;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(SimulatedDisk& disk, SimulatedDisk::FilePointer file)
      : disk_(disk), file_(std::move(file)) {}

  IOStatus Read(uint64_t offset, size_t bytes, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    return read_into(disk_, *file_, offset, bytes, result, scratch);
  }

 private:
  SimulatedDisk& disk_;
  const SimulatedDisk::FilePointer file_;
};

class WritableFile final : public rocksdb::FSWritableFile {
 public:
  WritableFile(SimulatedDisk& disk, SimulatedDisk::FilePointer file)
      : disk_(disk), file_(std::move(file)) {}

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    return status_of(disk_.append(*file_, data.ToStringView()), "append");
  }
  // Files are never made larger ahead of their content, so there is nothing to cut.
  IOStatus Truncate(uint64_t, const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return status_of(disk_.sync(*file_), "sync");
  }
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return disk_.size(*file_); }

 private:
  SimulatedDisk& disk_;
  const SimulatedDisk::FilePointer file_;
};

class Directory final : public rocksdb::FSDirectory {
 public:
  Directory(SimulatedDisk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return status_of(disk_.sync_directory(path_), "sync of " + path_);
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  SimulatedDisk& disk_;
  const std::string path_;
};

// RocksDB's log for people is no part of the simulation.
class NoLogger final : public rocksdb::Logger {
 public:
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
  size_t GetLogFileSize() const override { return 0; }
};

// The store has one process at a time by a lock of its own.
class NoLock final : public rocksdb::FileLock {};

class SimulatedFileSystem final : public rocksdb::FileSystem {
 public:
  explicit SimulatedFileSystem(SimulatedDisk& disk) : disk_(disk) {}

  const char* Name() const override { return "simulated"; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext*) override {
    return open<SequentialFile>(path, result);
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext*) override {
    return open<RandomAccessFile>(path, result);
  }
  IOStatus NewWritableFile(const std::string& path, const FileOptions&,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext*) override {
    if (holds_options(path)) return IOStatus::NotSupported(path);
    SimulatedDisk::FilePointer file;
    const int created = disk_.create(path, file);
    if (created == 0) *result = std::make_unique<WritableFile>(disk_, std::move(file));
    return status_of(created, path);
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions&,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) override {
    if (!disk_.is_directory(plain(path))) return IOStatus::PathNotFound(path);
    *result = std::make_unique<Directory>(disk_, plain(path));
    return IOStatus::OK();
  }
  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    return disk_.exists(plain(path)) ? IOStatus::OK() : IOStatus::NotFound(path);
  }
  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* result,
                       IODebugContext*) override {
    return status_of(disk_.list(plain(path), *result), path);
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    return status_of(disk_.remove(path), path);
  }
  IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    disk_.make_directory(plain(path));
    return IOStatus::OK();
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    disk_.make_directory(plain(path));
    return IOStatus::OK();
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("removal of directory " + path);
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* bytes,
                       IODebugContext*) override {
    return status_of(disk_.file_size(path, *bytes), path);
  }
  IOStatus GetFileModificationTime(const std::string&, const IOOptions&, uint64_t* seconds,
                                   IODebugContext*) override {
    *seconds = 0;
    return IOStatus::OK();
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    return status_of(disk_.rename(from, to), from);
  }
  IOStatus LockFile(const std::string&, const IOOptions&, rocksdb::FileLock** lock,
                    IODebugContext*) override {
    *lock = new NoLock;  // NOLINT(cppcoreguidelines-owning-memory): RocksDB's interface
    return IOStatus::OK();
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    delete lock;  // NOLINT(cppcoreguidelines-owning-memory)
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions&, std::string*, IODebugContext*) override {
    return IOStatus::NotSupported("a directory for tests");
  }
  IOStatus NewLogger(const std::string&, const IOOptions&, std::shared_ptr<rocksdb::Logger>* result,
                     IODebugContext*) override {
    *result = std::make_shared<NoLogger>();
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* result,
                           IODebugContext*) override {
    *result = path;
    return IOStatus::OK();
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* result,
                       IODebugContext*) override {
    *result = disk_.is_directory(plain(path));
    return IOStatus::OK();
  }

 private:
  template <typename Opened, typename Interface>
  IOStatus open(const std::string& path, std::unique_ptr<Interface>* result) {
    SimulatedDisk::FilePointer file;
    const int opened = disk_.open(path, file);
    if (opened == 0) *result = std::make_unique<Opened>(disk_, std::move(file));
    return status_of(opened, path);
  }

  SimulatedDisk& disk_;
};

}  // namespace

std::shared_ptr<rocksdb::Env> simulated_environment(SimulatedDisk& disk) {
  return rocksdb::NewCompositeEnv(std::make_shared<SimulatedFileSystem>(disk));
}

}  // namespace kvstrata::simulation
