#include "worker.h"

#include <algorithm>
#include <cstdio>

namespace kvstrata::test {

namespace {

// With the smallest disk budget reclaim is at least five segments of 4 MiB away from what is
// written now, moved blocks and the room segments lose at their ends included.
constexpr std::uint64_t young_bytes = 6_MiB;
constexpr std::uint64_t record_overhead = 8_KiB;
// The daemon disconnects who does not give memory back in 5 s, as a starved machine may do.
constexpr int disconnected_max = 20;

bool may_pass(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::busy:
    case ErrorKind::out_of_memory:
    case ErrorKind::out_of_space:
    case ErrorKind::unavailable:
    case ErrorKind::lease_expired: return true;
    default: return false;
  }
}

std::vector<Hash256> hashes_of(const Namespace& ns, const Item& item) {
  return prefix_hashes(ns.hash(), item.tokens(), block_tokens);
}

}  // namespace

Worker::Worker(std::uint32_t tenant, std::uint32_t thread, std::uint64_t seed, Traffic& traffic)
    : tenant_(tenant),
      thread_(thread),
      random_(seed),
      traffic_(traffic),
      items_(items_of_thread(tenant, thread)) {}

void Worker::run(const std::string& address) {
  visible_.clear();
  gone_.clear();
  // Half of the workers get and put through shared memory, the others in messages.
  auto client = TenantClient::connect(address, tenant_, thread_ % 2 == 0);
  Status status = client ? Status() : Status(client.error());
  int disconnected = 0;
  while (status && !traffic_.killed) {
    status = step(*client);
    if (status || !may_pass(status.error())) continue;
    // A durable put that fails tells of every block since the last FLUSH, and no FLUSH will again;
    // nor will one on another connection.
    const ErrorKind kind = status.error().kind();
    if (kind == ErrorKind::out_of_space || kind == ErrorKind::unavailable) visible_.clear();
    if (kind != ErrorKind::unavailable || ++disconnected < disconnected_max) status = {};
  }
  if (!status && !traffic_.killed) trouble_ = status.error().message();
}

Item& Worker::any_item(bool keep) {
  for (;;) {
    Item& item = items_[random_.below(items_.size())];
    if (item.keep == keep && !item.keys.front().foreign) return item;
  }
}

Status Worker::step(TenantClient& client) {
  const std::uint64_t dice = random_.below(100);
  if (dice < 55) {
    return put(client, any_item(false), {.durable = random_.one_in(3)});
  }
  if (dice < 70) return read(client, items_[random_.below(items_.size())]);
  if (dice < 80) return flush(client);
  if (dice < 90) return turn_kept(client, any_item(true));
  if (dice < 95) return remove(client, any_item(false));
  if (dice < 99) return remove_tail(client, any_item(false));
  return clear(client, item_kinds[random_.below(std::size(item_kinds))]);
}

Result<Stored> Worker::send(TenantClient& client, const Item& item, const PutOptions& options) {
  KV_ASSIGN(const Namespace ns, client.space(item));
  std::vector<ByteVector> contents;
  for (std::size_t block = 0; block < item.keys.size(); ++block) {
    contents.push_back(item.content(client.name(), block));
  }
  if (!item.is_chain()) {
    return client.client().put_value(ns, item.name(), contents.front(), options);
  }
  const std::vector<ByteView> views(contents.begin(), contents.end());
  return client.client().put(ns, {.tokens = item.tokens()}, views, options);
}

Status Worker::put(TenantClient& client, Item& item, const PutOptions& options) {
  const std::size_t number = static_cast<std::size_t>(&item - items_.data());
  const std::uint64_t bytes = (item.block_bytes() + record_overhead) * item.keys.size();
  const std::uint64_t before = traffic_.bytes_put.fetch_add(bytes);
  const std::vector<KeyState> known = item.keys;
  for (KeyState& key : item.keys) {
    key.may_exist = true;
    key.removed = false;
  }
  KV_ASSIGN(const Stored stored, send(client, item, options));
  for (std::size_t block = 0; block < item.keys.size(); ++block) {
    KeyState& key = item.keys[block];
    const auto status = static_cast<ErrorKind>(stored.status[block]);
    if (status == ErrorKind::conflict) live_.count(Verdict::corrupt);
    if (stored.status[block] == 0) {
      // It was not there: evicted, if it was durable before. The new one is not durable yet.
      rule(item, block, Seen::missing, false, live_);
      key.durable = key.pinned = false;
      key.put_at = before;
    } else if (status != ErrorKind::exists) {
      key.may_exist = known[block].may_exist;
      continue;
    }
    if (options.durable) {
      became_durable(key);
    } else {
      visible_.emplace_back(number, block);
    }
  }
  return {};
}

void Worker::became_durable(KeyState& key) {
  if (!std::exchange(key.durable, true)) ++durable_acks_;
}

Status Worker::flush(TenantClient& client) {
  const std::vector<Place> visible = std::exchange(visible_, {});
  const std::vector<Place> gone = std::exchange(gone_, {});
  KV_TRY(client.client().flush());
  for (const auto& [item, block] : visible) {
    KeyState& key = items_[item].keys[block];
    if (key.may_exist && !key.removed) became_durable(key);
  }
  for (const auto& [item, block] : gone) {
    KeyState& key = items_[item].keys[block];
    if (key.removed) key.may_exist = false;
  }
  return {};
}

// Counts; a verdict against the daemon is also printed, with what is known of the key.
void Worker::rule(const Item& item, std::size_t block, Seen seen, bool young,
                  Verdicts& verdicts) const {
  const KeyState& key = item.keys[block];
  const Verdict verdict = judge(key, seen, young);
  verdicts.must_keep += key.durable && (key.pinned || young) ? 1 : 0;
  verdicts.found += seen == Seen::own_bytes ? 1 : 0;
  verdicts.count(verdict);
  if (verdict == Verdict::fine || verdict == Verdict::evicted) return;
  std::printf("%s: %s of %s, key %zu:%s%s%s%s; %llu bytes were put since\n", name_of(verdict),
              item.name().c_str(), tenant_names[tenant_].c_str(), block,
              key.durable ? " durable" : "", key.pinned ? " pinned" : "",
              key.removed ? " removed" : "", key.may_exist ? "" : " must not exist",
              static_cast<unsigned long long>(traffic_.bytes_put - key.put_at));
}

Status Worker::read(TenantClient& client, Item& item) {
  KV_ASSIGN(const std::vector<Seen> seen, client.read(item));
  for (std::size_t block = 0; block < seen.size(); ++block) {
    rule(item, block, seen[block], false, live_);
  }
  return {};
}

// From here on the daemon may have removed it, or not.
void Worker::begin_removal(Item& item, std::size_t first) {
  for (std::size_t block = first; block < item.keys.size(); ++block) {
    item.keys[block].durable = false;
    item.keys[block].pinned = false;
  }
}

void Worker::end_removal(Item& item, std::size_t first) {
  const std::size_t number = static_cast<std::size_t>(&item - items_.data());
  for (std::size_t block = first; block < item.keys.size(); ++block) {
    item.keys[block].removed = true;
    gone_.emplace_back(number, block);
  }
}

Status Worker::remove(TenantClient& client, Item& item) {
  KV_ASSIGN(const Namespace ns, client.space(item));
  begin_removal(item, 0);
  if (item.is_chain()) {
    KV_TRY(client.client().remove(ns, Selection::of_tokens(item.tokens())));
  } else {
    const std::string keys[] = {item.name()};
    KV_TRY(client.client().remove(ns, Selection::of_keys(keys)));
  }
  end_removal(item, 0);
  return random_.one_in(2) ? flush(client) : Status();
}

// The rest of a chain, by the block where it begins.
Status Worker::remove_tail(TenantClient& client, Item& item) {
  if (!item.is_chain()) return remove(client, item);
  KV_ASSIGN(const Namespace ns, client.space(item));
  const std::size_t first = random_.below(item.keys.size());
  const std::vector<Hash256> hashes = hashes_of(ns, item);
  begin_removal(item, first);
  const auto prefix = std::span(hashes).first(first + 1);
  KV_TRY(client.client().clear_prefix(ns, Selection::of_hashes(prefix), {.also_pinned = true}));
  end_removal(item, first);
  return random_.one_in(2) ? flush(client) : Status();
}

// What is pinned stays. What is kept but not known to be pinned may stay.
Status Worker::clear(TenantClient& client, ItemKind kind) {
  const std::string cleared = spec_of(kind, thread_).model.fingerprint;
  std::vector<Item*> concerned;
  for (Item& item : items_) {
    if (spec_of(item.kind, thread_).model.fingerprint != cleared) continue;
    if (!item.keep) {
      concerned.push_back(&item);
      begin_removal(item, 0);
    } else if (!item.keys.front().pinned) {
      for (KeyState& key : item.keys) key.durable = false;
    }
  }
  KV_ASSIGN(const Namespace ns, client.space(kind, thread_));
  KV_TRY(client.client().clear(ns));
  for (Item* item : concerned) end_removal(*item, 0);
  return random_.one_in(2) ? flush(client) : Status();
}

// Pins come by PUT for even numbers, by PIN for others, and end with the block.
Status Worker::turn_kept(TenantClient& client, Item& item) {
  if (item.keys.front().pinned)
    return random_.one_in(4) ? remove(client, item) : read(client, item);
  const bool by_put = item.number % 2 == 0;
  KV_TRY(put(client, item, {.durable = true, .pinned = by_put}));
  const auto is_durable = [](const KeyState& key) { return key.durable; };
  if (!std::ranges::all_of(item.keys, is_durable)) return {};
  if (!by_put) {
    KV_ASSIGN(const Namespace ns, client.space(item));
    const std::string keys[] = {item.name()};
    const std::vector<std::uint32_t> tokens = item.tokens();
    const Selection selection =
        item.is_chain() ? Selection::of_tokens(tokens) : Selection::of_keys(keys);
    KV_ASSIGN(const Changed changed, client.client().pin(ns, selection, true));
    // Reclaim may have been faster.
    if (changed.changed != item.keys.size()) return {};
  }
  for (KeyState& key : item.keys) key.pinned = true;
  return {};
}

bool Worker::too_young_to_evict(const Item& item) const {
  if (item.is_chain()) return false;  // a block goes with its parent, however young it is
  return traffic_.bytes_put - item.keys.front().put_at < young_bytes;
}

Status Worker::check_all(TenantClient& client, Verdicts& verdicts) {
  for (Item& item : items_) {
    const bool young = too_young_to_evict(item);
    for (KeyState& key : item.keys) key.removed = false;
    KV_ASSIGN(const std::vector<Seen> seen, client.read(item));
    for (std::size_t block = 0; block < seen.size(); ++block) {
      KeyState& key = item.keys[block];
      const bool found = seen[block] == Seen::own_bytes;
      rule(item, block, seen[block], young, verdicts);
      key.may_exist = key.durable = found && !key.foreign;
      key.pinned = key.pinned && found;
    }
  }
  return {};
}

void Worker::forget_all() {
  items_ = items_of_thread(tenant_, thread_);
}

}  // namespace kvstrata::test
