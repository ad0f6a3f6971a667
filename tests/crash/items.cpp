#include "items.h"

#include "content.h"

namespace kvstrata::test {

namespace {

struct KindOf {
  const char* name;
  std::uint32_t blocks;  ///< of a chain
  std::uint32_t count;   ///< items a thread has
  std::uint32_t keep;    ///< of these, those it keeps pinned
};

// 30 MiB a thread: four of them need more than twice of what the smallest disk budget holds.
const KindOf& traits(ItemKind kind) {
  static constexpr KindOf all[] = {{"small-chain", 8, 32, 4},
                                   {"large-chain", 4, 16, 1},
                                   {"value", 1, 64, 6},
                                   {"large-value", 1, 4, 0}};
  return all[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string Item::name() const {
  return std::string(traits(kind).name) + "/" + std::to_string(thread) + "/" +
         std::to_string(number);
}

std::uint64_t Item::block_bytes() const {
  switch (kind) {
    case ItemKind::small_chain: return 4_KiB;
    case ItemKind::large_chain: return 256_KiB;
    case ItemKind::value: return 1 + number_named(name()) % (number % 4 == 0 ? 200'000 : 5'000);
    case ItemKind::large_value: return 2_MiB + number_named(name()) % 1_MiB;  // several extents
  }
  return 0;
}

std::vector<std::uint32_t> Item::tokens() const {
  std::vector<std::uint32_t> tokens;
  const std::uint64_t first = number_named(name());
  for (std::uint64_t i = 0; i < keys.size() * block_tokens; ++i) {
    tokens.push_back(static_cast<std::uint32_t>((first + i * 7919) % 50'000));
  }
  return tokens;
}

ByteVector Item::content(const std::string& tenant, std::size_t block) const {
  return content_named(tenant + "/" + name() + "/" + std::to_string(block), block_bytes());
}

std::vector<Item> items_of_thread(std::uint32_t tenant, std::uint32_t thread) {
  std::vector<Item> items;
  for (const ItemKind kind : item_kinds) {
    for (std::uint32_t number = 0; number < traits(kind).count; ++number) {
      Item item;
      item.kind = kind;
      item.thread = thread;
      item.number = number;
      item.keep = number < traits(kind).keep;
      item.keys.resize(traits(kind).blocks);
      const bool foreign = number % 2 == 1 && number / 2 % 2 != tenant;
      for (KeyState& key : item.keys) key.foreign = foreign;
      items.push_back(std::move(item));
    }
  }
  return items;
}

NamespaceSpec spec_of(ItemKind kind, std::uint32_t thread) {
  NamespaceSpec spec;
  const bool is_value = kind == ItemKind::value || kind == ItemKind::large_value;
  spec.model.fingerprint =
      (is_value ? std::string("values") : std::string(traits(kind).name)) + std::to_string(thread);
  spec.model.block_tokens = block_tokens;
  if (kind == ItemKind::small_chain) {
    spec.model.groups = {{GroupKind::full_attention, 2, 2, 16, 16, 0}};
  } else if (kind == ItemKind::large_chain) {
    spec.model.groups = {{GroupKind::full_attention, 16, 4, 64, 64, 0}};
  }
  return spec;
}

}  // namespace kvstrata::test
