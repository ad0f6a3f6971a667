// A Scratch is uninitialised working memory of one call. Up to 8 MiB it is the thread's own and
// stays warm between calls; more is taken from the heap and given back. Not shared, not nested
// beyond one Scratch a thread (KV_CHECK).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kvstrata::codec {

class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// The next `bytes` of it, aligned to 64.
  std::uint8_t* take(std::size_t bytes);

  /// What `bytes` take, to sum up the constructor's argument.
  static constexpr std::size_t rounded(std::size_t bytes) {
    return (bytes + 127) & ~std::size_t{63};
  }

 private:
  std::unique_ptr<std::uint8_t[]> own_;
  std::uint8_t* next_ = nullptr;
  std::uint8_t* end_ = nullptr;
};

}  // namespace kvstrata::codec
