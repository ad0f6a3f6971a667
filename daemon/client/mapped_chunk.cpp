#include "daemon/client/mapped_chunk.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <string>

namespace kvstrata::client {

namespace {

Error not_as_announced(const std::string& why) {
  return {ErrorKind::protocol, "a chunk of shared memory is not as announced: " + why};
}

/// A file that could shrink would end a reader with SIGBUS.
Status check_file(const FileDescriptor& file, std::uint64_t bytes) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return error_from_errno(errno, "fstat of a chunk");
  if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != bytes) {
    return not_as_announced("the file has another size");
  }
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return not_as_announced("its size is not sealed");
  return {};
}

}  // namespace

Result<std::shared_ptr<MappedChunk>> MappedChunk::map(const protocol::ChunkAnnouncement& announced,
                                                      const FileDescriptor& file, bool prefault) {
  const std::uint64_t bytes = announced.file_bytes;
  if (bytes < sizeof(hostmem::ChunkHeader)) return not_as_announced("shorter than a header");
  KV_TRY(check_file(file, bytes));
  const bool writable = announced.kind == protocol::ChunkKind::staging;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* at = ::mmap(nullptr, bytes, protection, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return error_from_errno(errno, "mmap of a chunk");
  // The constructor is private, so not make_shared.
  std::shared_ptr<MappedChunk> chunk(
      new MappedChunk(announced.kind, static_cast<std::byte*>(at), bytes));
  KV_TRY(chunk->read_header(announced.chunk));
  if (prefault) chunk->faults_taken_.resize(chunk->shape_.slots);
  return chunk;
}

MappedChunk::~MappedChunk() {
  ::munmap(data_, mapped_bytes_);
}

Status MappedChunk::read_header(std::uint64_t chunk) {
  hostmem::ChunkHeader header;
  std::memcpy(&header, data_, sizeof header);
  if (header.magic != hostmem::chunk_magic) return not_as_announced("its magic is missing");
  if (header.version != hostmem::chunk_version) {
    return Error(ErrorKind::unsupported, "shared memory of version " +
                                             std::to_string(header.version) +
                                             "; this client knows version 1");
  }
  if (header.chunk_id != chunk) return not_as_announced("it names another chunk");
  if (header.slots == 0 || header.slot_bytes == 0 || header.slot_bytes % hostmem::page_bytes != 0 ||
      header.slot_bytes > hostmem::slot_bytes_max) {
    return not_as_announced("its slots are out of range");
  }
  shape_ = {header.slot_bytes, header.slots};
  if (header.data_offset != shape_.data_offset() || mapped_bytes_ != shape_.file_bytes()) {
    return not_as_announced("its length is not that of its slots");
  }
  return {};
}

/// Slot by slot and not the whole chunk: memory nobody wrote yet would be taken from the kernel by
/// this process, and counted to its memory limit.
void MappedChunk::prefault(std::uint32_t slot) {
#ifdef MADV_POPULATE_READ  // Linux 5.14; older ones take the faults one by one
  if (faults_taken_.empty() || faults_taken_[slot]) return;
  faults_taken_[slot] = true;
  const int advice =
      kind_ == protocol::ChunkKind::staging ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  ::madvise(data_ + shape_.slot_offset(slot), shape_.slot_bytes, advice);
#endif
}

Result<MappedChunk::Place> MappedChunk::locate(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t begin = shape_.data_offset();
  if (offset < begin || offset >= mapped_bytes_ || (offset - begin) % shape_.slot_bytes != 0 ||
      bytes > shape_.slot_bytes) {
    return Error(ErrorKind::protocol, "the daemon named bytes outside of a slot: " +
                                          std::to_string(bytes) + " at " + std::to_string(offset));
  }
  const auto slot = static_cast<std::uint32_t>((offset - begin) / shape_.slot_bytes);
  prefault(slot);
  return Place{slot, {data_ + offset, bytes}};
}

bool MappedChunk::holds(std::uint32_t slot, std::uint64_t generation) const {
  KV_CHECK(slot < shape_.slots, "a slot beyond its chunk");
  // What was read before the call must not be read after this load.
  std::atomic_thread_fence(std::memory_order_acquire);
  const auto* words = reinterpret_cast<const std::uint64_t*>(data_ + sizeof(hostmem::ChunkHeader));
  return !ended_ && hostmem::is_published(generation) &&
         __atomic_load_n(words + slot, __ATOMIC_ACQUIRE) == generation;
}

}  // namespace kvstrata::client
