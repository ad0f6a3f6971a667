// Any file is a chunk or is refused, and a chunk's slots lie within its file.
#include <cstring>

#include "hostmem/chunk_view.h"
#include "hostmem/shared_memory.h"

using namespace kvstrata;
using namespace kvstrata::hostmem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const SharedMemory file = SharedMemory::create("fuzz", size).value();
  std::memcpy(file.data(), data, size);
  const Result<ChunkView> view = ChunkView::map(file.fd());
  if (!view) return 0;
  const ChunkShape& shape = view->shape();
  KV_CHECK(shape.slots > 0 && shape.file_bytes() == size, "a shape that is not the file's");
  ByteVector last(shape.slot_bytes);
  (void)view->copy_out(shape.slots - 1, 2, last);
  KV_CHECK(view->check(shape.slots, 2).error().kind() == ErrorKind::invalid_argument,
           "a slot beyond the last");
  return 0;
}

/// Random bytes are never a chunk; start from one that is.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned int seed) {
  if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, size_max);
  const ChunkShape shape{page_bytes * (1 + seed / 8 % 2), 1 + seed / 16 % 4};
  if (shape.file_bytes() > size_max) return LLVMFuzzerMutate(data, size, size_max);
  ChunkHeader header;
  header.slot_bytes = shape.slot_bytes;
  header.slots = shape.slots;
  header.data_offset = shape.data_offset();
  std::memset(data, 2, shape.file_bytes());
  std::memcpy(data, &header, sizeof header);
  if (seed % 8 < 4) (void)LLVMFuzzerMutate(data, sizeof header, sizeof header);
  return shape.file_bytes();
}
