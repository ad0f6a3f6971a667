#include "storage/device/memory_file.h"

#include <algorithm>

#include "kvstrata/check.h"

namespace kvstrata::storage {

bool MemoryFile::grow(std::uint64_t size) {
  if (size <= bytes_.size()) {
    return true;
  }
  const auto more = static_cast<std::int64_t>(size - bytes_.size());
  if (room_->fetch_sub(more) < more) {
    *room_ += more;
    return false;
  }
  bytes_.resize(size);
  return true;
}

void MemoryFile::write(std::uint64_t offset, ByteView bytes) {
  KV_CHECK(offset + bytes.size() <= bytes_.size(), "a write grows its file first");
  if (bytes.empty()) {
    return;
  }
  const std::uint64_t last = (offset + bytes.size() - 1) / sector_bytes;
  for (std::uint64_t number = offset / sector_bytes; number <= last; ++number) {
    const auto [found, fresh] = unsynced_.try_emplace(number);
    Unsynced& entry = found->second;
    if (fresh) {
      entry.durable = sector(number);
    } else if (entry.in_flight == 0 && !entry.abandoned) {
      entry.acknowledged = sector(number);
    }
    entry.abandoned = false;
    ++entry.in_flight;
  }
  std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
}

void MemoryFile::acknowledge(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) {
    return;
  }
  const std::uint64_t last = (offset + bytes - 1) / sector_bytes;
  for (std::uint64_t number = offset / sector_bytes; number <= last; ++number) {
    const auto found = unsynced_.find(number);
    KV_CHECK(found != unsynced_.end() && found->second.in_flight > 0, "acknowledged twice");
    if (--found->second.in_flight == 0) {
      found->second.acknowledged.clear();
    }
  }
}

void MemoryFile::sync() {
  durable_size_ = bytes_.size();
  for (auto at = unsynced_.begin(); at != unsynced_.end();) {
    Unsynced& entry = at->second;
    if (entry.in_flight == 0 && !entry.abandoned) {
      at = unsynced_.erase(at);
      continue;
    }
    if (!entry.acknowledged.empty()) {
      entry.durable = entry.acknowledged;
    }
    ++at;
  }
}

void MemoryFile::abandon() {
  for (auto& [number, entry] : unsynced_) {
    entry.abandoned = entry.abandoned || entry.in_flight == 0;
    entry.acknowledged.clear();
  }
}

void MemoryFile::crash(const std::function<bool()>& keeps) {
  for (const auto& [number, entry] : unsynced_) {
    if (!keeps()) {
      put_back(number, entry.durable);
    }
  }
  unsynced_.clear();
  if (bytes_.size() > durable_size_ && !keeps()) {
    *room_ += static_cast<std::int64_t>(bytes_.size() - durable_size_);
    bytes_.resize(durable_size_);
  }
  durable_size_ = bytes_.size();
}

ByteVector MemoryFile::sector(std::uint64_t number) const {
  ByteVector content(sector_bytes);
  const std::uint64_t begin = std::min<std::uint64_t>(number * sector_bytes, bytes_.size());
  const std::uint64_t end = std::min<std::uint64_t>(begin + sector_bytes, bytes_.size());
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(begin), end - begin, content.begin());
  return content;
}

void MemoryFile::put_back(std::uint64_t number, const ByteVector& content) {
  const std::uint64_t begin = number * sector_bytes;
  const std::uint64_t end = std::min<std::uint64_t>(begin + sector_bytes, bytes_.size());
  std::copy_n(content.begin(), end - begin, bytes_.begin() + static_cast<std::ptrdiff_t>(begin));
}

}  // namespace kvstrata::storage
