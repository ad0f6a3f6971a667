// Constants of wire protocol 1 (doc/wire-protocol.md): the fixed header, verbs and limits.
#pragma once

#include <cstdint>
#include <string_view>

#include "kvstrata/bytes.h"

namespace kvstrata::protocol {

inline constexpr std::uint32_t version = 1;
inline constexpr std::uint32_t magic = 0x3153564b;  ///< "KVS1"

inline constexpr std::uint32_t body_bytes_max = 1u << 20;
inline constexpr std::uint64_t payload_bytes_max = std::uint64_t{1} << 30;
inline constexpr std::uint32_t blocks_per_request_max = 16384;
inline constexpr std::uint32_t requests_in_flight_max = 1024;  ///< per connection
inline constexpr std::uint32_t body_depth_max = 8;
inline constexpr std::uint32_t descriptors_per_message_max = 32;  ///< file descriptors

enum class Verb : std::uint8_t {
  hello = 1,
  register_model = 2,
  lookup = 3,
  group_lookup = 4,
  exists = 5,
  load = 6,
  renew = 7,
  lease_attach = 8,
  release = 9,
  cancel = 10,
  reserve = 11,
  commit = 12,
  abort = 13,
  flush = 14,
  get = 15,
  put = 16,
  pin = 17,
  ttl = 18,
  remove = 19,  ///< DELETE
  clear = 20,
  epoch_bump = 21,
  stats = 22,
  explain = 23,
  watch = 24,
  list = 25,
  inspect = 26,
  evict = 27,
  verify = 28,
  chunk_unmapped = 29,
  event = 30,  ///< daemon to client, request id 0
};

inline constexpr std::uint8_t verb_max = 30;
std::string_view to_string(Verb verb);  ///< "HELLO", "REGISTER", ...

enum class MessageKind : std::uint8_t { request = 0, reply = 1, event = 2 };

/// The 32 bytes in front of every message, little-endian.
struct Header {
  std::uint32_t magic = protocol::magic;
  Verb verb = Verb::hello;
  MessageKind kind = MessageKind::request;
  std::uint16_t status = 0;  ///< replies: 0 or an ErrorKind
  std::uint64_t request_id = 0;
  std::uint32_t body_bytes = 0;
  std::uint16_t descriptors = 0;  ///< file descriptors that come with this message
  std::uint16_t reserved = 0;
  std::uint64_t payload_bytes = 0;
};
static_assert(sizeof(Header) == 32);

/// Where a block lies in shared memory (`refs` of LOAD and GET).
struct BlockRef {
  std::uint64_t chunk = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t generation = 0;
  std::uint64_t xxh3 = 0;  ///< of the block's bytes
};
static_assert(sizeof(BlockRef) == 40);

/// A place to write a block to (`slots` of RESERVE).
struct StagingRef {
  std::uint64_t slot = 0;
  std::uint64_t chunk = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(StagingRef) == 32);

/// Tiers as LOOKUP names them.
enum class Tier : std::uint8_t { none = 0, host = 1, disk = 2 };

}  // namespace kvstrata::protocol
