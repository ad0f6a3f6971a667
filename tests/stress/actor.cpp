#include "actor.h"

#include <algorithm>
#include <cstdio>

namespace kvstrata::test {

namespace {

constexpr std::size_t held_max = 4;

Selection selection_of(const Row& row) {
  if (row.is_chain()) return Selection::of_tokens(row.tokens);
  return Selection::of_keys({&row.name, 1});
}

bool gave_up(const Error& error) {
  return error.kind() == ErrorKind::cancelled || error.kind() == ErrorKind::deadline_exceeded ||
         error.kind() == ErrorKind::unavailable;
}

bool may_happen(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::busy:
    case ErrorKind::out_of_memory:
    case ErrorKind::out_of_space:
    case ErrorKind::not_found:
    case ErrorKind::lease_expired: return true;
    default: return gave_up(error);
  }
}

}  // namespace

Actor::Held::Held(Row& held_row) : row(held_row) {
  for (Key* key : row.keys) reads.push_back(key->history.read_begins());
}

Actor::Held::~Held() {
  for (std::size_t i = 0; i < reads.size(); ++i) row.keys[i]->history.read_ends(reads[i]);
}

Actor::Actor(Shelf& shelf, std::string address, std::uint64_t seed)
    : shelf_(shelf), address_(std::move(address)), random_(seed) {}

ClientOptions Actor::options() const {
  ClientOptions options;
  options.address = address_;
  options.prefault = false;
  options.request_timeout = Milliseconds(120'000);
  return options;
}

Status Actor::connect() {
  ClientOptions wanted = options();
  wanted.shared_memory = !random_.one_in(4);
  auto client = Client::connect(wanted);
  if (!client) return client.error();
  const std::lock_guard lock(client_mutex_);
  client_.emplace(std::move(*client));
  spaces_.clear();
  return {};
}

void Actor::disturb() {
  const std::lock_guard lock(client_mutex_);
  if (client_) client_->cancel();
}

Result<Namespace> Actor::space(Area area) {
  if (const auto known = spaces_.find(area); known != spaces_.end()) return known->second;
  KV_ASSIGN(const Namespace ns, client_->register_model(Shelf::spec(area)));
  spaces_.emplace(area, ns);
  return ns;
}

Row& Actor::any_row() {
  return shelf_.rows()[random_.below(shelf_.rows().size())];
}

void Actor::run(std::chrono::steady_clock::time_point end, std::deque<Actor>& all) {
  while (trouble_.empty() && std::chrono::steady_clock::now() < end) step(all);
  held_.clear();
  const std::lock_guard lock(client_mutex_);
  client_.reset();
}

void Actor::step(std::deque<Actor>& all) {
  ++operations_;
  ++counts_.operations;
  if (random_.one_in(300)) all[random_.below(all.size())].disturb();
  Status status;
  if (!client_ || random_.one_in(2000)) {
    held_.clear();  // or with the connection: what was leased is let go by either
    status = connect();
  }
  if (status) status = act(random_.below(1000));
  if (status) return;
  if (status.error().kind() == ErrorKind::lease_expired) ++counts_.leases_expired;
  if (gave_up(status.error())) ++counts_.gave_up;
  if (!may_happen(status.error())) trouble_ = status.error().message();
}

Status Actor::act(std::uint64_t dice) {
  if (dice < 330) return put(any_row(), random_.one_in(16));
  if (dice < 600) return read(any_row());
  if (dice < 700) return hold(any_row());
  if (dice < 850) return use_held();
  if (dice < 900) return remove(any_row());
  if (dice < 930) return remove_tail(any_row());
  if (dice < 940) return clear();
  if (dice < 950) return expire(any_row());
  if (dice < 960) return pin_for_a_moment(any_row());
  if (dice < 975) return give_up_soon(any_row());
  if (dice < 985) {
    const auto evicted = client_->evict(random_.below(4_MiB));
    return evicted ? Status() : Status(evicted.error());
  }
  const auto flushed = client_->flush();
  return flushed ? Status() : Status(flushed.error());
}

Status Actor::put(Row& row, bool durable) {
  KV_ASSIGN(const Namespace ns, space(row.area));
  const std::uint64_t version = shelf_.next_version();
  std::vector<ByteVector> contents;
  for (Key* key : row.keys) contents.push_back(key->content(version));
  for (Key* key : row.keys) key->history.put_begins(version);
  const std::vector<ByteView> views(contents.begin(), contents.end());
  const auto stored =
      row.is_chain() ? client_->put(ns, {.tokens = row.tokens}, views, {.durable = durable})
                     : client_->put_value(ns, row.name, contents.front(), {.durable = durable});
  for (std::size_t i = 0; i < row.keys.size(); ++i) {
    PutEnd end = PutEnd::unknown;
    if (stored) end = stored->status[i] == 0 ? PutEnd::stored : PutEnd::refused;
    if (!stored && stored.error().kind() == ErrorKind::busy) end = PutEnd::refused;
    row.keys[i]->history.put_ends(version, end);
  }
  return stored ? Status() : Status(stored.error());
}

void Actor::judge(const Key& key, const BlockView& view, Moment began) {
  if (!view) return;  // a miss is always possible
  ByteVector bytes(view.bytes().size());
  const Status copied = view.copy_out(bytes);
  if (!copied) {
    ++counts_.leases_expired;
    return;
  }
  ++counts_.reads_judged;
  const std::uint64_t version =
      bytes.size() < sizeof(std::uint64_t) ? 0 : load_le<std::uint64_t>(bytes.data());
  const bool whole = bytes == key.content(version);
  if (whole && key.history.may_have_seen(version, began)) return;
  ++counts_.impossible_reads;
  std::printf("impossible read: %s has %s version %llu\n", key.name.c_str(),
              whole ? "had its" : "not the bytes of", static_cast<unsigned long long>(version));
}

// A prefix ends at its first miss.
Status Actor::read(Row& row) {
  const Held now(row);
  KV_ASSIGN(const Namespace ns, space(row.area));
  KV_ASSIGN(const Fetched fetched, client_->get(ns, selection_of(row)));
  for (std::size_t i = 0; i < fetched.blocks.size(); ++i) {
    judge(*row.keys[i], fetched.blocks[i], now.reads[i]);
  }
  return {};
}

Status Actor::hold(Row& row) {
  if (held_.size() >= held_max) {
    std::swap(held_[random_.below(held_.size())], held_.back());
    held_.pop_back();
  }
  auto now = std::make_unique<Held>(row);
  KV_ASSIGN(const Namespace ns, space(row.area));
  KV_ASSIGN(now->lease, client_->lookup(ns, selection_of(row), Milliseconds(100)));
  if (now->lease.blocks() > 0) held_.push_back(std::move(now));
  return {};
}

// Loads, renews or reads again under a lease that may have expired by now.
Status Actor::use_held() {
  if (held_.empty()) return {};
  Held& held = *held_[random_.below(held_.size())];
  if (random_.one_in(3)) return held.lease.renew(Milliseconds(100 + random_.below(400)));
  if (held.views.empty() || random_.one_in(4)) {
    KV_ASSIGN(held.views, client_->load(held.lease, 0, held.lease.blocks()));
  }
  for (std::size_t i = 0; i < held.views.size(); ++i) {
    judge(*held.row.keys[i], held.views[i], held.reads[i]);
  }
  return {};
}

Status Actor::remove(Row& row) {
  KV_ASSIGN(const Namespace ns, space(row.area));
  std::vector<Moment> began;
  for (Key* key : row.keys) began.push_back(key->history.removal_begins());
  KV_TRY(client_->remove(ns, selection_of(row)));
  for (std::size_t i = 0; i < began.size(); ++i) row.keys[i]->history.removal_ends(began[i]);
  return {};
}

Status Actor::remove_tail(Row& row) {
  if (!row.is_chain()) return remove(row);
  KV_ASSIGN(const Namespace ns, space(row.area));
  const std::size_t first = random_.below(row.keys.size());
  const std::size_t block_tokens = row.tokens.size() / row.keys.size();
  const auto prefix = std::span(row.tokens).first((first + 1) * block_tokens);
  std::vector<Moment> began;
  for (std::size_t i = first; i < row.keys.size(); ++i) {
    began.push_back(row.keys[i]->history.removal_begins());
  }
  KV_TRY(client_->clear_prefix(ns, Selection::of_tokens(prefix), {.also_pinned = true}));
  for (std::size_t i = 0; i < began.size(); ++i) {
    row.keys[first + i]->history.removal_ends(began[i]);
  }
  return {};
}

Status Actor::clear() {
  KV_ASSIGN(const Namespace ns, space(Area::cleared));
  std::vector<std::pair<Key*, Moment>> began;
  for (Row& row : shelf_.rows()) {
    if (row.area != Area::cleared) continue;
    began.emplace_back(row.keys.front(), row.keys.front()->history.removal_begins());
  }
  KV_TRY(client_->clear(ns, {.also_pinned = true}));
  for (const auto& [key, moment] : began) key->history.removal_ends(moment);
  return {};
}

Status Actor::expire(Row& row) {
  KV_ASSIGN(const Namespace ns, space(row.area));
  KV_TRY(client_->set_ttl(ns, selection_of(row), Milliseconds(1 + random_.below(50))));
  return {};
}

Status Actor::pin_for_a_moment(Row& row) {
  KV_ASSIGN(const Namespace ns, space(row.area));
  KV_TRY(client_->pin(ns, selection_of(row), true));
  KV_TRY(client_->pin(ns, selection_of(row), false));
  return {};
}

// A client that waits for moments only, and goes away with whatever was under way for it.
Status Actor::give_up_soon(Row& row) {
  const Held now(row);
  ClientOptions hasty = options();
  hasty.request_timeout = Milliseconds(1 + random_.below(30));
  auto client = Client::connect(hasty);
  if (!client) return client.error();
  KV_ASSIGN(const Namespace ns, client->register_model(Shelf::spec(row.area)));
  KV_ASSIGN(const Lease lease, client->lookup(ns, selection_of(row), Milliseconds(100)));
  if (lease.blocks() == 0) return {};
  KV_ASSIGN(const std::vector<BlockView> views, client->load(lease, 0, lease.blocks()));
  for (std::size_t i = 0; i < views.size(); ++i) judge(*row.keys[i], views[i], now.reads[i]);
  return {};
}

}  // namespace kvstrata::test
