// A MemoryFile is one file of a MemoryDisk: what it reads as now, and what of that a power cut
// could undo. `bytes()` is the file as written; each sector written since its last sync also has
// its durable content remembered, so that the durable image is the file with those put back.
//
// Threads: none of its own; the MemoryDisk locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "kvstrata/bytes.h"

namespace kvstrata::storage {

class MemoryFile {
 public:
  static constexpr std::uint64_t sector_bytes = 4096;

  /// The room a disk has left; its files give it back when the last handle is gone.
  using Room = std::shared_ptr<std::atomic<std::int64_t>>;

  explicit MemoryFile(Room room) : room_(std::move(room)) {}
  ~MemoryFile() { *room_ += static_cast<std::int64_t>(bytes_.size()); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::uint64_t size() const { return bytes_.size(); }
  ByteView bytes() const { return bytes_; }

  /// Grows with zeros to `size`; false when the disk has no room.
  bool grow(std::uint64_t size);
  /// Writes within the file. A sync covers it only once it is acknowledged, as with a drive that
  /// reorders: a program must not count on more.
  void write(std::uint64_t offset, ByteView bytes);
  void acknowledge(std::uint64_t offset, std::uint64_t bytes);
  /// Makes the size and all acknowledged writes durable.
  void sync();
  /// A sync failed: what it should have written stays readable, but no later sync writes it unless
  /// the sector is written again.
  void abandon();
  /// Keeps each unsynced sector, in order, and then the unsynced size, or undoes it, as `keeps`
  /// says.
  void crash(const std::function<bool()>& keeps);

 private:
  struct Unsynced {
    ByteVector durable;           // a whole sector; zeros where the file did not reach
    ByteVector acknowledged;      // what a sync would make durable while a rewrite is in flight
    std::uint32_t in_flight = 0;  // writes not acknowledged
    bool abandoned = false;
  };

  ByteVector sector(std::uint64_t number) const;
  void put_back(std::uint64_t number, const ByteVector& content);

  Room room_;
  ByteVector bytes_;
  std::uint64_t durable_size_ = 0;
  std::map<std::uint64_t, Unsynced> unsynced_;  // by sector number
};

}  // namespace kvstrata::storage
