#include "hostmem/chunk_view.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace kvstrata::hostmem {

namespace {

std::uint64_t load_generation(const std::byte* chunk, std::uint32_t slot) {
  const std::byte* words = chunk + sizeof(ChunkHeader);
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(words) + slot, __ATOMIC_ACQUIRE);
}

Error not_a_chunk(const std::string& why) {
  return {ErrorKind::corrupt, "not a chunk of shared memory: " + why};
}

}  // namespace

Result<ChunkView> ChunkView::map(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return error_from_errno(errno, "fstat of a chunk");
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (bytes < sizeof(ChunkHeader)) return not_a_chunk("shorter than a header");
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return error_from_errno(errno, "mmap of a chunk");
  ChunkView view(static_cast<const std::byte*>(at), bytes);
  KV_TRY(view.read_header());
  return view;
}

Status ChunkView::read_header() {
  ChunkHeader header;
  std::memcpy(&header, data_, sizeof header);
  if (header.magic != chunk_magic) return not_a_chunk("its magic is missing");
  if (header.version != chunk_version) {
    return Error(ErrorKind::unsupported, "chunk version " + std::to_string(header.version) +
                                             "; this client knows version 1");
  }
  if (header.slots == 0 || header.slot_bytes == 0 || header.slot_bytes % page_bytes != 0 ||
      header.slot_bytes > slot_bytes_max) {
    return not_a_chunk("its slots are out of range");
  }
  shape_ = {header.slot_bytes, header.slots};
  if (header.data_offset != shape_.data_offset() || mapped_bytes_ != shape_.file_bytes()) {
    return not_a_chunk("its length is not that of its slots");
  }
  chunk_id_ = header.chunk_id;
  return {};
}

ChunkView::ChunkView(ChunkView&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      chunk_id_(other.chunk_id_),
      shape_(other.shape_) {}

ChunkView& ChunkView::operator=(ChunkView&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    mapped_bytes_ = other.mapped_bytes_;
    chunk_id_ = other.chunk_id_;
    shape_ = other.shape_;
  }
  return *this;
}

ChunkView::~ChunkView() {
  unmap();
}

void ChunkView::unmap() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), mapped_bytes_);
  data_ = nullptr;
}

Status ChunkView::check(std::uint32_t slot, std::uint64_t generation) const {
  if (slot >= shape_.slots) {
    return Error(ErrorKind::invalid_argument,
                 "slot " + std::to_string(slot) + " of " + std::to_string(shape_.slots));
  }
  // What was read before the call must not be read after this load.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (is_published(generation) && load_generation(data_, slot) == generation) return {};
  return Error(ErrorKind::lease_expired,
               "slot " + std::to_string(slot) + " holds another block by now");
}

ByteView ChunkView::bytes(std::uint32_t slot) const {
  KV_CHECK(slot < shape_.slots, "a slot beyond its chunk");
  return {data_ + shape_.slot_offset(slot), shape_.slot_bytes};
}

Status ChunkView::copy_out(std::uint32_t slot, std::uint64_t generation, MutableBytes out) const {
  if (out.size() > shape_.slot_bytes) {
    return Error(ErrorKind::invalid_argument, "a slot has " + std::to_string(shape_.slot_bytes) +
                                                  " bytes, not " + std::to_string(out.size()));
  }
  return read(slot, generation,
              [out](ByteView from) { std::memcpy(out.data(), from.data(), out.size()); });
}

}  // namespace kvstrata::hostmem
