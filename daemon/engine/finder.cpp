#include "daemon/engine/finder.h"

#include <algorithm>

namespace kvstrata::daemon {

namespace {

// A long prefix that misses early should not cost a long MultiGet: ask for few first.
constexpr std::size_t first_batch = 64;

constexpr std::size_t opaque_key_bytes_max = 256;

Result<std::vector<Hash256>> digests_of(const Namespace& ns, const Selection& selection) {
  if (selection.by == SelectBy::hash) return selection.hashes;
  std::vector<Hash256> digests;
  if (selection.by == SelectBy::key) {
    for (const std::string& key : selection.keys) {
      if (key.empty() || key.size() > opaque_key_bytes_max) {
        return Error(ErrorKind::invalid_argument, "an opaque key has 1..256 bytes");
      }
      digests.push_back(opaque_hash(ns.record.hash, as_bytes(key)));
    }
    return digests;
  }
  KV_TRY(validate_tokens(selection.tokens, ns.model().vocab_size));
  const std::size_t block_tokens = ns.model().block_tokens;
  Hash256 parent = ns.record.hash;
  for (std::size_t i = 0; (i + 1) * block_tokens <= selection.tokens.size(); ++i) {
    const auto extras = selection.extras.find(static_cast<std::uint32_t>(i));
    const auto tokens = std::span(selection.tokens).subspan(i * block_tokens, block_tokens);
    parent = extras == selection.extras.end() ? block_hash(parent, tokens)
                                              : block_hash(parent, tokens, extras->second);
    digests.push_back(parent);
  }
  return digests;
}

}  // namespace

struct Finder::Search {
  std::vector<BlockKey> keys;
  Found found;
  std::vector<std::size_t> unknown;  ///< indexes the directory does not know, rising
  std::size_t asked = 0;             ///< how many of `unknown` the index was asked for
  std::size_t end = 0;               ///< a prefix ends here at the latest
  bool prefix = false;
  std::function<void(Result<Found>)> done;
};

Result<std::vector<BlockKey>> Finder::keys_of(const Caller& caller, const Selection& selection) {
  KV_ASSIGN(const Namespace* ns, namespaces_.find(caller, selection.ns));
  if (!ns->is_opaque() && selection.group >= ns->groups.size()) {
    return Error(ErrorKind::invalid_argument, "group " + std::to_string(selection.group) +
                                                  " is not declared; the model has " +
                                                  std::to_string(ns->groups.size()));
  }
  if ((selection.by == SelectBy::key) != ns->is_opaque() && selection.by != SelectBy::hash) {
    return Error(ErrorKind::invalid_argument, ns->is_opaque()
                                                  ? "this namespace has opaque keys, not tokens"
                                                  : "this namespace has tokens, not opaque keys");
  }
  KV_ASSIGN(const std::vector<Hash256> digests, digests_of(*ns, selection));
  std::vector<BlockKey> keys;
  keys.reserve(digests.size());
  for (const Hash256& digest : digests) keys.push_back({selection.ns, digest, selection.group});
  return keys;
}

void Finder::find(std::vector<BlockKey> keys, bool prefix,
                  std::function<void(Result<Found>)> done) {
  auto search = std::make_shared<Search>();
  search->keys = std::move(keys);
  search->found.resize(search->keys.size());
  search->end = search->keys.size();
  search->prefix = prefix;
  search->done = std::move(done);
  directory_.prefetch(search->keys);
  const std::uint64_t now_ms = core_.clock.unix_ms();
  for (std::size_t i = 0; i < search->end; ++i) {
    BlockPtr block = directory_.find(search->keys[i]);
    if (block == nullptr) {
      if (!doubts_.is_tombstone(search->keys[i]))
        search->unknown.push_back(i);
      else if (prefix)
        search->end = i;
    } else if (block->is_visible(now_ms)) {
      search->found[i] = std::move(block);
    } else if (prefix) {
      search->end = i;
    }
  }
  continue_search(search);
}

void Finder::drop_evicted(Found& found, bool prefix) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == nullptr) continue;
    const bool gone = found[i]->host == Block::HostCopy::absent && !found[i]->entry;
    if (!gone) continue;
    if (prefix) {
      found.resize(i);
      return;
    }
    found[i] = nullptr;
  }
}

void Finder::continue_search(const std::shared_ptr<Search>& search) {
  const auto wanted_end = std::ranges::lower_bound(search->unknown, search->end);
  const std::size_t wanted = static_cast<std::size_t>(wanted_end - search->unknown.begin());
  if (search->asked >= wanted) {
    if (search->prefix) search->found.resize(search->end);
    drop_evicted(search->found, search->prefix);
    search->done(std::move(search->found));
    return;
  }
  const std::size_t last =
      search->prefix && search->asked == 0 ? std::min(wanted, first_batch) : wanted;
  std::vector<std::size_t> asked(
      search->unknown.begin() + static_cast<std::ptrdiff_t>(search->asked),
      search->unknown.begin() + static_cast<std::ptrdiff_t>(last));
  search->asked = last;
  std::vector<BlockKey> keys;
  keys.reserve(asked.size());
  for (const std::size_t i : asked) keys.push_back(search->keys[i]);
  read_index(std::move(keys), [this, search, asked = std::move(asked)](Result<Entries> entries) {
    if (!entries) {
      search->done(entries.error());
      return;
    }
    take_entries(search, asked, *entries);
    continue_search(search);
  });
}

void Finder::read_index(std::vector<BlockKey> keys, std::function<void(Result<Entries>)> then) {
  const IndexDoubts::Reading reading = doubts_.reading_begins();
  auto asked = std::make_shared<const std::vector<BlockKey>>(std::move(keys));
  core_.on_worker(
      [this, asked]() -> Result<Entries> {
        Entries entries(asked->size());
        const Status status = core_.store->find(*asked, entries);
        if (core_.options.at_point) core_.options.at_point("after-index-read");
        if (!status) return status.error();
        return entries;
      },
      [this, asked, reading, then = std::move(then)](Result<Entries> entries) {
        for (std::size_t i = 0; entries && i < asked->size(); ++i) {
          std::optional<storage::IndexEntry>& entry = (*entries)[i];
          if (entry && !doubts_.believes(reading, (*asked)[i], *entry)) entry.reset();
        }
        doubts_.reading_ends(reading);
        then(std::move(entries));
      });
}

void Finder::take_entries(const std::shared_ptr<Search>& search,
                          const std::vector<std::size_t>& asked,
                          std::span<const std::optional<storage::IndexEntry>> entries) {
  const std::uint64_t now_ms = core_.clock.unix_ms();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const BlockKey& key = search->keys[asked[i]];
    // The directory is asked again: a commit or removal may have come in between.
    BlockPtr block = directory_.find(key);
    Namespace* ns = namespaces_.get(key.ns);
    if (block == nullptr && entries[i] && ns != nullptr) {
      block = directory_.remember(key, ns->tenant, *entries[i]);
    }
    if (block != nullptr && block->is_visible(now_ms)) {
      search->found[asked[i]] = std::move(block);
    } else if (search->prefix) {
      search->end = std::min(search->end, asked[i]);
    }
  }
}

}  // namespace kvstrata::daemon
