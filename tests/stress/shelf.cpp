#include "shelf.h"

#include "tests/crash/content.h"

namespace kvstrata::test {

namespace {

constexpr std::uint32_t block_tokens = 16;
constexpr std::uint64_t block_bytes = 4_KiB;
constexpr std::size_t chain_blocks = 6;

std::uint64_t bytes_of_value(const std::string& name) {
  const std::uint64_t number = number_named(name);
  return sizeof(std::uint64_t) + number % (number % 3 == 0 ? 600'000 : 20'000);
}

}  // namespace

ByteVector Key::content(std::uint64_t version) const {
  ByteVector content = content_named(name + "#" + std::to_string(version), bytes);
  store_le(content.data(), version);
  return content;
}

Shelf::Shelf(bool large) {
  for (std::size_t i = 0; i < (large ? 1000 : 100); ++i) add_row(Area::values, i, 1);
  for (std::size_t i = 0; i < 40; ++i) add_row(Area::cleared, i, 1);
  for (std::size_t i = 0; i < 24; ++i) add_row(Area::chains, i, chain_blocks);
}

void Shelf::add_row(Area area, std::size_t number, std::size_t keys) {
  Row row;
  row.area = area;
  row.name = std::to_string(static_cast<int>(area)) + "/" + std::to_string(number);
  for (std::size_t i = 0; i < keys; ++i) {
    const std::string name = row.name + "/" + std::to_string(i);
    keys_.emplace_back(name, row.is_chain() ? block_bytes : bytes_of_value(name), moments_);
    row.keys.push_back(&keys_.back());
    for (std::uint32_t token = 0; row.is_chain() && token < block_tokens; ++token) {
      row.tokens.push_back(static_cast<std::uint32_t>((number_named(name) + token) % 50'000));
    }
  }
  rows_.push_back(std::move(row));
}

NamespaceSpec Shelf::spec(Area area) {
  NamespaceSpec spec;
  spec.model.fingerprint = "area" + std::to_string(static_cast<int>(area));
  spec.model.block_tokens = block_tokens;
  if (area == Area::chains) {
    spec.model.groups = {{GroupKind::full_attention, 2, 2, 16, 16, 0}};
  }
  return spec;
}

}  // namespace kvstrata::test
