#include "storage/reclaim_plan.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace kvstrata::storage {

namespace {

class Planner {
 public:
  Planner(const Index& index, const ReclaimRules& rules, std::vector<KeyedEntry> candidates)
      : index_(index), rules_(rules), candidates_(std::move(candidates)) {
    for (std::size_t i = 0; i < candidates_.size(); ++i) place_of_[candidates_[i].first] = i;
    kept_.assign(candidates_.size(), false);
  }

  Result<ReclaimPlan> plan();

 private:
  std::optional<std::size_t> parent_of(std::size_t i) const;
  void keep_with_ancestors(std::size_t i);
  bool keep_if_it_fits(std::size_t i);
  Result<std::vector<bool>> have_child_elsewhere() const;
  void promote_ancestors_of_musts(const std::vector<KeyedEntry>& behind);
  void give_up_orphans(const std::vector<KeyedEntry>& behind);
  ReclaimPlan in_order() const;
  std::vector<BlockKey> not_kept() const;

  const Index& index_;
  const ReclaimRules& rules_;
  std::vector<KeyedEntry> candidates_;
  std::unordered_map<BlockKey, std::size_t> place_of_;
  std::vector<bool> kept_;
  std::uint64_t kept_bytes_ = 0;  // of those that don't have to stay
};

std::optional<std::size_t> Planner::parent_of(std::size_t i) const {
  const auto& [key, entry] = candidates_[i];
  if (!entry.parent) return std::nullopt;
  const auto found = place_of_.find({key.ns, *entry.parent, key.group});
  if (found == place_of_.end()) return std::nullopt;
  return found->second;
}

void Planner::keep_with_ancestors(std::size_t i) {
  for (std::optional<std::size_t> at = i; at && !kept_[*at]; at = parent_of(*at)) {
    kept_[*at] = true;
  }
}

bool Planner::keep_if_it_fits(std::size_t i) {
  std::uint64_t bytes = 0;
  std::unordered_set<std::size_t> chain;  // a loop of parents can't be written, but may be read
  for (std::optional<std::size_t> at = i; at && !kept_[*at] && chain.insert(*at).second;
       at = parent_of(*at)) {
    bytes += candidates_[*at].second.record_bytes();
  }
  if (kept_bytes_ + bytes > rules_.keep_bytes_max) return false;
  kept_bytes_ += bytes;
  keep_with_ancestors(i);
  return true;
}

Result<std::vector<bool>> Planner::have_child_elsewhere() const {
  std::vector<BlockKey> keys;
  for (const auto& [key, entry] : candidates_) keys.push_back(key);
  return index_.have_child(keys, [&](const BlockKey& child) { return place_of_.contains(child); });
}

std::vector<BlockKey> Planner::not_kept() const {
  std::vector<BlockKey> keys;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!kept_[i]) keys.push_back(candidates_[i].first);
  }
  return keys;
}

// A block that must stay somewhere behind a block here keeps that one too: it is of no use without.
// `behind`: what isn't kept, and all that continues it.
void Planner::promote_ancestors_of_musts(const std::vector<KeyedEntry>& behind) {
  std::unordered_map<BlockKey, const IndexEntry*> entries;
  for (const auto& [key, entry] : behind) entries[key] = &entry;
  for (const auto& [key, entry] : behind) {
    if (!rules_.must_stay(key, entry)) continue;
    std::unordered_set<BlockKey> chain;
    BlockKey at = key;
    for (auto found = entries.find(at); found != entries.end() && chain.insert(at).second;
         found = entries.find(at)) {
      if (const auto place = place_of_.find(at); place != place_of_.end()) {
        kept_[place->second] = true;
      }
      if (!found->second->parent) break;
      at.digest = *found->second->parent;
    }
  }
}

// What continues a block that goes, goes too, even if it was chosen to stay. Fewer blocks go than
// when `behind` was read, so all that matters is in it.
void Planner::give_up_orphans(const std::vector<KeyedEntry>& behind) {
  std::unordered_multimap<BlockKey, BlockKey> children;
  for (const auto& [key, entry] : behind) {
    if (entry.parent) children.emplace(BlockKey{key.ns, *entry.parent, key.group}, key);
  }
  std::vector<BlockKey> going = not_kept();
  std::unordered_set<BlockKey> seen(going.begin(), going.end());
  while (!going.empty()) {
    const BlockKey key = going.back();
    going.pop_back();
    if (const auto place = place_of_.find(key); place != place_of_.end()) {
      kept_[place->second] = false;
    }
    const auto [first, last] = children.equal_range(key);
    for (auto child = first; child != last; ++child) {
      if (seen.insert(child->second).second) going.push_back(child->second);
    }
  }
}

ReclaimPlan Planner::in_order() const {
  ReclaimPlan plan;
  std::vector<bool> done(candidates_.size(), false);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    std::vector<std::size_t> chain;
    for (std::optional<std::size_t> at = i; at && kept_[*at] && !done[*at]; at = parent_of(*at)) {
      done[*at] = true;
      chain.push_back(*at);
    }
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) plan.keep.push_back(candidates_[*at]);
  }
  return plan;
}

Result<ReclaimPlan> Planner::plan() {
  std::vector<std::size_t> parents;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& [key, entry] = candidates_[i];
    if (rules_.must_stay(key, entry)) keep_with_ancestors(i);
  }
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& [key, entry] = candidates_[i];
    if (!kept_[i] && !entry.expired(rules_.now_unix_ms) && rules_.wanted(key)) keep_if_it_fits(i);
  }
  KV_ASSIGN(const std::vector<bool> is_parent, have_child_elsewhere());
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (kept_[i] || candidates_[i].second.expired(rules_.now_unix_ms)) continue;
    if (is_parent[i]) keep_if_it_fits(i);
  }
  KV_ASSIGN(const std::vector<KeyedEntry> behind, with_descendants(index_, not_kept()));
  promote_ancestors_of_musts(behind);
  give_up_orphans(behind);
  return in_order();
}

}  // namespace

Result<ReclaimPlan> plan_reclaim(const Index& index, const ReclaimRules& rules,
                                 std::vector<KeyedEntry> candidates) {
  return Planner(index, rules, std::move(candidates)).plan();
}

}  // namespace kvstrata::storage
