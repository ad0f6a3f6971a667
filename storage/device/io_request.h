// An IoRequest is one transfer a Device is asked for, an IoCompletion is how it ended. Plain
// values, no threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvstrata/result.h"

namespace kvstrata::storage {

/// Offsets, lengths and buffer addresses of all transfers are multiples of this (O_DIRECT).
inline constexpr std::uint64_t io_alignment = 4096;

/// The longest single transfer; fits the 32-bit lengths of every back end.
inline constexpr std::uint64_t transfer_bytes_max = std::uint64_t{1} << 30;

/// An open file of one Device; other Devices, clones too, don't know it.
struct FileHandle {
  std::int32_t value = -1;
  friend bool operator==(FileHandle, FileHandle) = default;
};

enum class IoOperation : std::uint8_t { read, write, data_sync };

/// One transfer. For data_sync offset and buffer are unused.
struct IoRequest {
  IoOperation operation = IoOperation::read;
  FileHandle file;
  std::uint64_t offset = 0;
  std::byte* buffer = nullptr;  ///< written by read, only read by write
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;  ///< the caller's; comes back in the completion
};

/// The end of one request: all of its bytes moved, or an error and nothing may be assumed.
struct IoCompletion {
  std::uint64_t tag = 0;
  Status status;
};

}  // namespace kvstrata::storage
