// A Worker is one client of a crash test: it puts, reads, pins and removes items of its own until
// the daemon dies, and keeps the journal of what was acknowledged.
//
// Threads: run() on one thread; everything else while run() is not running.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "reading.h"
#include "tests/base/seed.h"

namespace kvstrata::test {

/// What all workers share.
struct Traffic {
  std::atomic<bool> killed{false};          ///< the daemon is gone: stop
  std::atomic<std::uint64_t> bytes_put{0};  ///< of puts begun, in this and earlier lives
};

class Worker {
 public:
  Worker(std::uint32_t tenant, std::uint32_t thread, std::uint64_t seed, Traffic& traffic);

  /// Works until the daemon is killed. A failure that no kill explains is kept in trouble().
  void run(const std::string& address);

  /// Reads every key and compares with the journal; what is found is on disk and counts as durable
  /// from then on. To be called after a restart, before anything else is put.
  Status check_all(TenantClient& client, Verdicts& verdicts);
  /// The store was emptied.
  void forget_all();

  std::uint32_t tenant() const { return tenant_; }
  const Verdicts& seen_live() const { return live_; }
  std::uint64_t durable_acks() const { return durable_acks_; }
  const std::string& trouble() const { return trouble_; }

 private:
  using Place = std::pair<std::size_t, std::size_t>;  // item, key of the item

  Status step(TenantClient& client);
  Status put(TenantClient& client, Item& item, const PutOptions& options);
  Result<Stored> send(TenantClient& client, const Item& item, const PutOptions& options);
  Status read(TenantClient& client, Item& item);
  Status remove(TenantClient& client, Item& item);
  Status remove_tail(TenantClient& client, Item& item);
  Status clear(TenantClient& client, ItemKind kind);
  Status turn_kept(TenantClient& client, Item& item);
  Status flush(TenantClient& client);

  Item& any_item(bool keep);
  void begin_removal(Item& item, std::size_t first);
  void end_removal(Item& item, std::size_t first);
  void became_durable(KeyState& key);
  void rule(const Item& item, std::size_t block, Seen seen, bool young, Verdicts& verdicts) const;
  bool too_young_to_evict(const Item& item) const;

  std::uint32_t tenant_;
  std::uint32_t thread_;
  Random random_;
  Traffic& traffic_;
  std::vector<Item> items_;
  std::vector<Place> visible_;  ///< put and not yet known to be durable
  std::vector<Place> gone_;     ///< removed and not yet flushed
  Verdicts live_;
  std::uint64_t durable_acks_ = 0;
  std::string trouble_;
};

}  // namespace kvstrata::test
