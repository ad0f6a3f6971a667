// A Body is the MessagePack map in the middle of a message: string keys, values of the few types
// wire protocol 1 uses. Written with set_*, read with get_*, whose errors are kind
// `invalid_argument` and name the field.
//
// Threads: a Body is a value; one thread at a time. Lifetime: views that readers return (get_bytes)
// are valid until the Body is changed, moved or destroyed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/protocol.h"
#include "kvstrata/result.h"

namespace kvstrata::protocol {

/// Values, keys not counted, that one parsed body may hold.
inline constexpr std::uint32_t body_elements_max = 1u << 17;

/// Byte strings by index, for example the extra keys that touch a block.
using IndexedBytes = std::map<std::uint32_t, std::vector<std::string>>;

class Body {
 public:
  Body();
  Body(Body&&) noexcept;
  Body& operator=(Body&&) noexcept;
  Body(const Body&);
  Body& operator=(const Body&);
  ~Body();

  /// Parses exactly one map without trailing bytes; bounds depth (body_depth_max, the map itself
  /// counts), elements and bytes (body_bytes_max). No bytes at all are an empty map. Refused:
  /// keys that are not strings or appear twice, extension types.
  static Result<Body> parse(ByteView bytes);

  /// Keys sorted, integers and lengths in their shortest form: equal bodies give equal bytes.
  ByteVector serialize() const;

  /// JSON for people and scripts; byte strings as lower-case hex. `indent` -1: one line.
  std::string to_json(int indent = -1) const;

  // ---- writing; a key that is set again keeps the last value
  Body& set_u64(std::string_view key, std::uint64_t value);
  Body& set_i64(std::string_view key, std::int64_t value);
  Body& set_double(std::string_view key, double value);
  Body& set_bool(std::string_view key, bool value);
  Body& set_text(std::string_view key, std::string_view value);
  Body& set_bytes(std::string_view key, ByteView value);
  Body& set_body(std::string_view key, const Body& value);
  Body& set_u64s(std::string_view key, std::span<const std::uint64_t> values);
  Body& set_texts(std::string_view key, std::span<const std::string> values);
  Body& set_byte_strings(std::string_view key, std::span<const std::string> values);
  Body& set_bodies(std::string_view key, std::span<const Body> values);
  /// `[[u64, …], …]`
  Body& set_rows(std::string_view key, std::span<const std::vector<std::uint64_t>> rows);
  /// `[[index, [bin, …]], …]`
  Body& set_indexed_bytes(std::string_view key, const IndexedBytes& values);

  // ---- reading. A nil value is an absent one. Limits are inclusive.
  bool has(std::string_view key) const;
  std::vector<std::string> keys() const;

  Result<std::uint64_t> get_u64(std::string_view key, std::uint64_t min, std::uint64_t max) const;
  Result<std::int64_t> get_i64(std::string_view key, std::int64_t min, std::int64_t max) const;
  Result<double> get_double(std::string_view key) const;  ///< integers count
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string> get_text(std::string_view key, std::size_t bytes_max) const;
  Result<ByteView> get_bytes(std::string_view key, std::size_t bytes_max) const;
  Result<ByteView> get_bytes_exact(std::string_view key, std::size_t bytes) const;
  Result<Body> get_body(std::string_view key) const;
  Result<std::vector<std::uint64_t>> get_u64s(std::string_view key, std::size_t count_max,
                                              std::uint64_t value_max = UINT64_MAX) const;
  Result<std::vector<std::string>> get_texts(std::string_view key, std::size_t count_max,
                                             std::size_t bytes_max) const;
  Result<std::vector<std::string>> get_byte_strings(std::string_view key, std::size_t count_max,
                                                    std::size_t bytes_max) const;
  Result<std::vector<Body>> get_bodies(std::string_view key, std::size_t count_max) const;
  /// Every row has exactly `columns` numbers.
  Result<std::vector<std::vector<std::uint64_t>>> get_rows(std::string_view key,
                                                           std::size_t rows_max,
                                                           std::size_t columns) const;
  /// Indices rise strictly from at most `index_max`; 1..`strings_max` strings for each.
  Result<IndexedBytes> get_indexed_bytes(std::string_view key, std::uint32_t index_max,
                                         std::size_t strings_max, std::size_t bytes_max) const;

  // ---- the same for fields that may be absent
  Result<std::uint64_t> get_u64_or(std::string_view key, std::uint64_t fallback, std::uint64_t min,
                                   std::uint64_t max) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<std::string> get_text_or(std::string_view key, std::string_view fallback,
                                  std::size_t bytes_max) const;
  Result<std::optional<std::uint64_t>> find_u64(std::string_view key, std::uint64_t min,
                                                std::uint64_t max) const;
  Result<std::optional<std::string>> find_text(std::string_view key, std::size_t bytes_max) const;
  Result<std::optional<ByteView>> find_bytes(std::string_view key, std::size_t bytes_max) const;
  Result<std::optional<ByteView>> find_bytes_exact(std::string_view key, std::size_t bytes) const;

  friend bool operator==(const Body& a, const Body& b) { return a.equals(b); }

  struct Impl;  ///< of body.cpp

 private:
  explicit Body(std::unique_ptr<Impl> impl);
  bool equals(const Body& other) const;

  std::unique_ptr<Impl> impl_;  // empty only when moved from
};

}  // namespace kvstrata::protocol
