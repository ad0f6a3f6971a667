// A ByteCursor takes fixed-size little-endian fields off a byte string and never reads past its
// end: after the first missing byte every further take() gives zeros and ok() is false.
#pragma once

#include <string>
#include <string_view>

#include "kvstrata/bytes.h"
#include "kvstrata/keys.h"

namespace kvstrata::storage {

class ByteCursor {
 public:
  explicit ByteCursor(std::string_view bytes) : rest_(bytes) {}

  template <std::integral T>
  T take() {
    T value{};
    take_into(&value, sizeof value);
    return value;
  }
  Hash256 take_hash() {
    Hash256 hash;
    take_into(hash.bytes.data(), hash.bytes.size());
    return hash;
  }
  std::string_view take_text(std::size_t bytes) {
    if (!has(bytes)) return {};
    const std::string_view text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return text;
  }
  std::string_view rest() const { return rest_; }

  bool ok() const { return ok_; }
  bool ok_at_end() const { return ok_ && rest_.empty(); }

 private:
  bool has(std::size_t bytes) {
    ok_ = ok_ && rest_.size() >= bytes;
    return ok_;
  }
  void take_into(void* to, std::size_t bytes) {
    if (!has(bytes)) return;
    std::memcpy(to, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
  }

  std::string_view rest_;
  bool ok_ = true;
};

template <std::integral T>
void append_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void append_hash(std::string& out, const Hash256& hash) {
  out += as_text(hash.view());
}

}  // namespace kvstrata::storage
