// The things a crash test stores. An Item is a chain of blocks or one opaque value; what it is
// called, how large it is and what it contains follow from its kind, its thread and its number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "judge.h"
#include "kvstrata/client.h"

namespace kvstrata::test {

enum class ItemKind : std::uint8_t { small_chain, large_chain, value, large_value };
inline constexpr ItemKind item_kinds[] = {ItemKind::small_chain, ItemKind::large_chain,
                                          ItemKind::value, ItemKind::large_value};

struct Item {
  ItemKind kind = ItemKind::value;
  std::uint32_t thread = 0;
  std::uint32_t number = 0;
  bool keep = false;           ///< it is only ever durable and pinned, or not there at all
  std::vector<KeyState> keys;  ///< one per block of a chain; one for a value

  bool is_chain() const { return kind == ItemKind::small_chain || kind == ItemKind::large_chain; }
  std::string name() const;
  std::uint64_t block_bytes() const;
  std::vector<std::uint32_t> tokens() const;  ///< of a chain
  /// What block `block` contains when `tenant` puts it.
  ByteVector content(const std::string& tenant, std::size_t block) const;
};

inline constexpr std::uint32_t block_tokens = 16;

/// All items of a thread of tenant `tenant` (0 or 1). Both tenants have the same; of the odd
/// numbers each puts half, so that the rest must stay invisible to it.
std::vector<Item> items_of_thread(std::uint32_t tenant, std::uint32_t thread);

/// The namespace an item lies in; threads have their own, so that each may clear its.
NamespaceSpec spec_of(ItemKind kind, std::uint32_t thread);

}  // namespace kvstrata::test
