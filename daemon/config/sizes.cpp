#include "daemon/config/sizes.h"

#include <array>
#include <charconv>

namespace kvstrata::daemon {

namespace {

struct Unit {
  std::string_view name;
  unsigned shift;
};
constexpr std::array<Unit, 5> units = {Unit{"B", 0}, Unit{"KiB", 10}, Unit{"MiB", 20},
                                       Unit{"GiB", 30}, Unit{"TiB", 40}};
constexpr std::uint64_t size_max = std::uint64_t{1} << 60;

Error not_a_size(std::string_view text) {
  return {
      ErrorKind::invalid_argument,
      "\"" + std::string(text.substr(0, 40)) +
          "\" is not a size; write a whole number and B, KiB, MiB, GiB or TiB, as in \"50GiB\""};
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{}) return not_a_size(text);

  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.empty()) unit = "B";
  for (const Unit& known : units) {
    if (unit != known.name) continue;
    if (number > size_max >> known.shift) {
      return Error(ErrorKind::invalid_argument,
                   "\"" + std::string(text.substr(0, 40)) + "\" is beyond the limit of 2^60 bytes");
    }
    return number << known.shift;
  }
  return not_a_size(text);
}

std::string format_size(std::uint64_t bytes) {
  std::size_t unit = 0;
  if (bytes != 0) {
    while (unit + 1 < units.size() &&
           (bytes & ((std::uint64_t{1} << units[unit + 1].shift) - 1)) == 0) {
      ++unit;
    }
  }
  return std::to_string(bytes >> units[unit].shift) + std::string(units[unit].name);
}

}  // namespace kvstrata::daemon
