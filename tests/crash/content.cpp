#include "content.h"

#include <algorithm>

namespace kvstrata::test {

namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Four bf16: sign and mantissa at random, exponents of 0.25 to 2 mostly.
std::uint64_t four_scalars(std::uint64_t random) {
  const std::uint64_t signs_and_mantissas = random & 0x807f'807f'807f'807fULL;
  const std::uint64_t a = mixed(random) & 0x0001'0001'0001'0001ULL;
  const std::uint64_t b = (mixed(random) >> 1) & 0x0001'0001'0001'0001ULL;
  return signs_and_mantissas | (0x007d'007d'007d'007dULL + a + b) << 7;
}

}  // namespace

std::uint64_t number_named(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mixed(hash);
}

ByteVector content_named(std::string_view name, std::uint64_t bytes) {
  ByteVector content(round_up(bytes, 8));
  std::uint64_t state = number_named(name);
  for (std::size_t at = 0; at < content.size(); at += 8) {
    state += 0x9e3779b97f4a7c15ULL;
    store_le(content.data() + at, four_scalars(mixed(state)));
  }
  content.resize(bytes);
  return content;
}

}  // namespace kvstrata::test
