// Rope: the rotary position embedding that K carries, so that it can be taken off and put back. Any
// machine computes the same: the angle is an integer product, cos and sin a stored table's.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace kvstrata::codec {

struct Turn {
  float cosine, sine;
};

/// How an engine turns K: channels j and j + rotary_dim / 2 of a head are a pair ("rotate half").
struct RopeSpec {
  std::uint32_t rotary_dim = 0;  ///< of each head; even; 0: K is stored as it is
  double theta = 10'000;
};

class Rope {
 public:
  Rope() = default;
  explicit Rope(const RopeSpec& spec);
  /// Of a stored model: per pair the angle of one position.
  static Rope of(std::vector<std::uint32_t> steps) {
    Rope rope;
    rope.steps_ = std::move(steps);
    return rope;
  }

  const std::vector<std::uint32_t>& steps() const { return steps_; }
  std::uint32_t pairs() const { return static_cast<std::uint32_t>(steps_.size()); }
  /// The turn of `pair` at `position`.
  Turn at(std::uint32_t pair, std::uint32_t position) const;

 private:
  std::vector<std::uint32_t> steps_;  ///< per pair: the angle of one position; a turn is 2^32
};

}  // namespace kvstrata::codec
