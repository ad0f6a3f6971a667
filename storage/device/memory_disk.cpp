#include "storage/device/memory_disk.h"

#include <algorithm>
#include <cerrno>
#include <set>

namespace kvstrata::storage {

MemoryDisk::MemoryDisk(std::uint64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes),
      room_(
          std::make_shared<std::atomic<std::int64_t>>(static_cast<std::int64_t>(capacity_bytes))) {}

std::uint64_t MemoryDisk::epoch() const {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

std::uint64_t MemoryDisk::used_bytes() const {
  return capacity_bytes_ - static_cast<std::uint64_t>(room_->load());
}

void MemoryDisk::fail_syncs(std::function<bool()> fails) {
  const std::lock_guard lock(mutex_);
  sync_fails_ = std::move(fails);
}

void MemoryDisk::crash(std::mt19937_64& random) {
  crash([&random] { return (random() >> 63) != 0; });
}

void MemoryDisk::crash(const std::function<bool()>& keeps) {
  const std::lock_guard lock(mutex_);
  ++epoch_;
  // A name whose file differs from the durable one was made, removed or both since: either stays.
  std::set<std::string> all;
  for (const Names* names : {&names_, &durable_names_}) {
    std::transform(names->begin(), names->end(), std::inserter(all, all.end()),
                   [](const auto& entry) { return entry.first; });
  }
  Names left;
  for (const std::string& name : all) {
    const auto now = names_.find(name);
    const auto durable = durable_names_.find(name);
    const bool same =
        now != names_.end() && durable != durable_names_.end() && now->second == durable->second;
    const bool keep_now = same || keeps();
    if (keep_now && now != names_.end()) {
      left.insert(*now);
    } else if (!keep_now && durable != durable_names_.end()) {
      left.insert(*durable);
    }
  }
  for (const auto& [name, file] : left) {
    file->crash(keeps);
  }
  durable_names_ = left;
  names_ = std::move(left);
}

Status MemoryDisk::check_epoch(std::uint64_t epoch) const {
  if (epoch != epoch_) {
    return Error(ErrorKind::io, "the disk crashed since this device was opened");
  }
  return {};
}

Result<MemoryDisk::FilePointer> MemoryDisk::open(std::uint64_t epoch, const std::string& name,
                                                 bool create) {
  const std::lock_guard lock(mutex_);
  KV_TRY(check_epoch(epoch));
  const auto found = names_.find(name);
  if (found != names_.end()) {
    return found->second;
  }
  if (!create) {
    return error_from_errno(ENOENT, "open " + name);
  }
  auto file = std::make_shared<MemoryFile>(room_);
  names_.emplace(name, file);
  return file;
}

Status MemoryDisk::remove(std::uint64_t epoch, const std::string& name) {
  const std::lock_guard lock(mutex_);
  KV_TRY(check_epoch(epoch));
  if (names_.erase(name) == 0) {
    return error_from_errno(ENOENT, "remove " + name);
  }
  return {};
}

Status MemoryDisk::sync_directory(std::uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  KV_TRY(check_epoch(epoch));
  durable_names_ = names_;
  return {};
}

Result<std::vector<std::string>> MemoryDisk::list(std::uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  KV_TRY(check_epoch(epoch));
  std::vector<std::string> names;
  for (const auto& [name, file] : names_) {
    names.push_back(name);
  }
  return names;
}

Status MemoryDisk::allocate(std::uint64_t epoch, MemoryFile& file, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  KV_TRY(check_epoch(epoch));
  if (!file.grow(bytes)) {
    return error_from_errno(ENOSPC, "allocate " + std::to_string(bytes) + " bytes");
  }
  return {};
}

Result<std::uint64_t> MemoryDisk::size(std::uint64_t epoch, const MemoryFile& file) const {
  const std::lock_guard lock(mutex_);
  KV_TRY(check_epoch(epoch));
  return file.size();
}

std::int64_t MemoryDisk::read(std::uint64_t epoch, const MemoryFile& file, std::uint64_t offset,
                              MutableBytes out) const {
  const std::lock_guard lock(mutex_);
  if (epoch != epoch_) {
    return -EIO;
  }
  const ByteView bytes = file.bytes();
  if (offset >= bytes.size()) {
    return 0;
  }
  const ByteView part = bytes.subspan(offset, std::min(bytes.size() - offset, out.size()));
  std::copy(part.begin(), part.end(), out.begin());
  return static_cast<std::int64_t>(part.size());
}

std::int64_t MemoryDisk::write(std::uint64_t epoch, MemoryFile& file, std::uint64_t offset,
                               ByteView bytes) {
  const std::lock_guard lock(mutex_);
  if (epoch != epoch_) {
    return -EIO;
  }
  if (offset > capacity_bytes_ || !file.grow(offset + bytes.size())) {
    return -ENOSPC;
  }
  file.write(offset, bytes);
  return static_cast<std::int64_t>(bytes.size());
}

std::int64_t MemoryDisk::data_sync(std::uint64_t epoch, MemoryFile& file) {
  const std::lock_guard lock(mutex_);
  if (epoch != epoch_) {
    return -EIO;
  }
  if (sync_fails_ && sync_fails_()) {
    file.abandon();
    return -EIO;
  }
  file.sync();
  return 0;
}

void MemoryDisk::acknowledge(std::uint64_t epoch, MemoryFile& file, std::uint64_t offset,
                             std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (epoch == epoch_) {
    file.acknowledge(offset, bytes);
  }
}

}  // namespace kvstrata::storage
