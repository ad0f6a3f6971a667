#include "tests/simulation/simulated_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

namespace kvstrata::simulation {

namespace {

constexpr std::size_t torn_unit = 512;  // what a drive writes whole

bool one_in(std::mt19937_64& random, std::uint64_t n) {
  return random() % n == 0;
}

}  // namespace

// --- one file ------------------------------------------------------------------------------------

void SimulatedDisk::File::lose_sectors(std::mt19937_64& random, const Range& range) {
  for (std::size_t at = range.begin; at < range.end;) {
    const std::size_t sector_end = (at / sector_bytes + 1) * sector_bytes;
    const std::size_t end = std::min(sector_end, range.end);
    if (one_in(random, 2)) {
      // Lost whole, or only from some unit on: a torn write.
      const std::size_t units = (end - at + torn_unit - 1) / torn_unit;
      const std::size_t kept = one_in(random, 3) ? random() % units * torn_unit : 0;
      std::memset(bytes_.data() + at + kept, 0, end - at - kept);
    }
    at = end;
  }
}

void SimulatedDisk::File::crash(std::mt19937_64& random) {
  const std::size_t unsynced = bytes_.size() - durable_;
  if (unsynced > 0) {
    switch (random() % 3) {
      case 0: bytes_.resize(durable_); break;
      case 1: bytes_.resize(durable_ + random() % unsynced); break;
      default: break;
    }
    lose_sectors(random, {durable_, bytes_.size()});
  }
  for (const Range& range : abandoned_) {
    lose_sectors(random, {range.begin, std::min(range.end, bytes_.size())});
  }
  abandoned_.clear();
  durable_ = bytes_.size();
}

// --- faults --------------------------------------------------------------------------------------

void SimulatedDisk::plan(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({fault, counts_[static_cast<std::size_t>(fault.operation)] + fault.nth});
}

void SimulatedDisk::clear_faults() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
}

std::uint64_t SimulatedDisk::operations(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<std::size_t>(operation)];
}

std::uint64_t SimulatedDisk::faults_struck() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

const SimulatedDisk::Fault* SimulatedDisk::strikes(Operation operation) {
  const std::uint64_t number = ++counts_[static_cast<std::size_t>(operation)];
  const auto found = std::ranges::find_if(faults_, [&](const Planned& planned) {
    if (planned.fault.operation != operation) return false;
    return planned.fault.from_then_on ? number >= planned.at : number == planned.at;
  });
  if (found == faults_.end()) return nullptr;
  ++struck_;
  last_ = found->fault;
  if (!found->fault.from_then_on) faults_.erase(found);
  return &*last_;
}

// Under the lock: 0, or why the operation fails without having done anything.
int SimulatedDisk::begin(Operation operation, std::uint64_t epoch) {
  if (!on_ || epoch != epoch_) return -EIO;
  const Fault* fault = strikes(operation);
  return fault != nullptr ? -fault->error_number : 0;
}

// --- files ---------------------------------------------------------------------------------------

int SimulatedDisk::open(const std::string& path, FilePointer& file) {
  before_();
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Operation::open, epoch_); error != 0) return error;
  std::string name;
  const Directory* directory = directory_of(path, name);
  const auto found = directory != nullptr ? directory->names.find(name) : Names::const_iterator();
  if (directory == nullptr || found == directory->names.end()) return -ENOENT;
  file = found->second;
  file->epoch_ = epoch_;
  return 0;
}

int SimulatedDisk::create(const std::string& path, FilePointer& file) {
  before_();
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Operation::open, epoch_); error != 0) return error;
  std::string name;
  Directory* directory = directory_of(path, name);
  if (directory == nullptr) return -ENOENT;
  file = std::make_shared<File>(epoch_);
  directory->names[name] = file;
  return 0;
}

std::int64_t SimulatedDisk::read(const File& file, std::uint64_t offset, std::size_t bytes,
                                 char* out) {
  before_();
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Operation::read, file.epoch_); error != 0) return error;
  if (offset >= file.bytes_.size()) return 0;
  const std::size_t count = std::min<std::size_t>(bytes, file.bytes_.size() - offset);
  std::copy_n(file.bytes_.data() + offset, count, out);
  return static_cast<std::int64_t>(count);
}

int SimulatedDisk::append(File& file, std::string_view bytes) {
  before_();
  const std::lock_guard lock(mutex_);
  if (file.epoch_ != epoch_) return -EIO;
  const Fault* fault = strikes(Operation::append);
  if (fault == nullptr) {
    file.bytes_.append(bytes);
    return 0;
  }
  if (fault->half_done) file.bytes_.append(bytes.substr(0, bytes.size() / 2));
  return -fault->error_number;
}

int SimulatedDisk::sync(File& file) {
  before_();
  const std::lock_guard lock(mutex_);
  const int error = begin(Operation::sync, file.epoch_);
  if (error == -EIO && file.epoch_ != epoch_) return error;
  // After a failed sync the pages count as clean, though they may never reach the disk.
  if (error != 0 && file.durable_ < file.bytes_.size()) {
    file.abandoned_.push_back({file.durable_, file.bytes_.size()});
  }
  file.durable_ = file.bytes_.size();
  return error;
}

std::uint64_t SimulatedDisk::size(const File& file) const {
  const std::lock_guard lock(mutex_);
  return file.bytes_.size();
}

// --- names ---------------------------------------------------------------------------------------

SimulatedDisk::Directory* SimulatedDisk::directory_of(const std::string& path, std::string& name) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return nullptr;
  name = path.substr(slash + 1);
  const auto found = directories_.find(path.substr(0, slash));
  return found == directories_.end() ? nullptr : &found->second;
}

const SimulatedDisk::Directory* SimulatedDisk::directory_of(const std::string& path,
                                                            std::string& name) const {
  return const_cast<SimulatedDisk*>(this)->directory_of(path, name);  // NOLINT: reads only
}

bool SimulatedDisk::exists(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  std::string name;
  const Directory* directory = directory_of(path, name);
  return directories_.contains(path) || (directory != nullptr && directory->names.contains(name));
}

bool SimulatedDisk::is_directory(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return directories_.contains(path);
}

int SimulatedDisk::file_size(const std::string& path, std::uint64_t& bytes) const {
  const std::lock_guard lock(mutex_);
  std::string name;
  const Directory* directory = directory_of(path, name);
  if (directory == nullptr || !directory->names.contains(name)) return -ENOENT;
  bytes = directory->names.at(name)->bytes_.size();
  return 0;
}

int SimulatedDisk::rename(const std::string& from, const std::string& to) {
  before_();
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Operation::rename, epoch_); error != 0) return error;
  std::string name;
  std::string new_name;
  Directory* directory = directory_of(from, name);
  Directory* target = directory_of(to, new_name);
  if (directory == nullptr || target == nullptr) return -ENOENT;
  const auto found = directory->names.find(name);
  if (found == directory->names.end()) return -ENOENT;
  const FilePointer file = found->second;
  directory->names.erase(found);
  target->names[new_name] = file;
  return 0;
}

int SimulatedDisk::remove(const std::string& path) {
  before_();
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Operation::remove, epoch_); error != 0) return error;
  std::string name;
  Directory* directory = directory_of(path, name);
  return directory != nullptr && directory->names.erase(name) > 0 ? 0 : -ENOENT;
}

int SimulatedDisk::list(const std::string& directory, std::vector<std::string>& names) const {
  const std::lock_guard lock(mutex_);
  const auto found = directories_.find(directory);
  if (found == directories_.end()) return -ENOENT;
  names.clear();
  for (const auto& [name, file] : found->second.names) names.push_back(name);
  return 0;
}

void SimulatedDisk::make_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  directories_.try_emplace(path);
}

int SimulatedDisk::sync_directory(const std::string& path) {
  before_();
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Operation::sync_directory, epoch_); error != 0) return error;
  const auto found = directories_.find(path);
  if (found == directories_.end()) return -ENOENT;
  found->second.durable = found->second.names;
  return 0;
}

void SimulatedDisk::switch_on() {
  const std::lock_guard lock(mutex_);
  on_ = true;
}

void SimulatedDisk::crash(std::mt19937_64& random) {
  const std::lock_guard lock(mutex_);
  on_ = false;
  ++epoch_;
  std::set<FilePointer> left;
  for (auto& [path, directory] : directories_) {
    std::set<std::string> all;
    for (const auto& [name, file] : directory.names) all.insert(name);
    for (const auto& [name, file] : directory.durable) all.insert(name);
    Names names;
    for (const std::string& name : all) {
      const auto now = directory.names.find(name);
      const auto durable = directory.durable.find(name);
      const bool has_now = now != directory.names.end();
      const bool was_durable = durable != directory.durable.end();
      const bool same = has_now && was_durable && now->second == durable->second;
      const bool keep_now = same || one_in(random, 2);
      if (keep_now && has_now) names.insert(*now);
      if (!keep_now && was_durable) names.insert(*durable);
    }
    for (const auto& [name, file] : names) {
      if (left.insert(file).second) file->crash(random);
    }
    directory.durable = names;
    directory.names = std::move(names);
  }
}

}  // namespace kvstrata::simulation
