#include "tests/simulation/simulation.h"

#include <algorithm>
#include <cstdio>

#include "storage/segment/record.h"

namespace kvstrata::simulation {

namespace {

NamespaceSpec spec_of(int space) {
  NamespaceSpec spec;
  spec.tenant = "tenant " + std::to_string(space);
  spec.model.fingerprint = "weights";
  return spec;
}

}  // namespace

Simulation::Simulation(std::uint64_t seed, const std::string& directory, bool traced)
    : traced_(traced), random_(seed), plan_(draw_plan(random_)), machine_(seed + 1, directory) {
  report_.seed = seed;
  spaces_.resize(static_cast<std::size_t>(plan_.spaces));
}

Report Simulation::run() {
  for (const LifePlan& life : plan_.lives) {
    live(life);
    if (!model_.failures().empty()) break;
  }
  report_.failures = model_.failures();
  return report_;
}

// --- lives ---------------------------------------------------------------------------------------

void Simulation::tell(const LifePlan& plan) const {
  std::printf("  life %llu: %d steps, cut at operation %llu, cut at %s %llu, fail sync %llu\n",
              static_cast<unsigned long long>(report_.lives), plan.steps,
              static_cast<unsigned long long>(plan.cut_at_operation),
              plan.cut_at_point.empty() ? "no point" : plan.cut_at_point.c_str(),
              static_cast<unsigned long long>(plan.cut_at_nth),
              static_cast<unsigned long long>(plan.fail_sync));
  for (const SimulatedDisk::Fault& fault : plan.index_faults) {
    std::printf("    fails of the index: operation %d, the %llu. %s, errno %d\n",
                static_cast<int>(fault.operation), static_cast<unsigned long long>(fault.nth),
                fault.from_then_on ? "and all after it" : "only", fault.error_number);
  }
}

void Simulation::live(const LifePlan& plan) {
  life_ = plan;
  ++report_.lives;
  if (traced_) tell(plan);
  held_.clear();
  budget_bytes_ = std::max(budget_bytes_, Machine::budget_of_segments(plan.sizes));
  syncs_failed_seen_ = machine_.syncs_failed();
  index_faults_at_start_ = machine_.index_faults();
  if (plan.cut_at_operation > 0) machine_.power().cut_at_operation(plan.cut_at_operation);
  if (!plan.cut_at_point.empty()) {
    machine_.power().cut_at_point(plan.cut_at_point, plan.cut_at_nth);
  }
  machine_.transfers().set_rates(plan.transfers);
  for (const storage::Fault& fault : plan.names_faults) machine_.transfers().add(fault);
  for (const SimulatedDisk::Fault& fault : plan.index_faults) machine_.index().plan(fault);
  machine_.fail_sync(plan.fail_sync);
  if (open(plan)) {
    audit();
    for (int i = 0; i < plan.steps && running(); ++i) step();
    if (running()) audit();
  }
  end_life();
}

// Only then has the store said its last word; what it did after the power went, it did to nothing.
void Simulation::end_life() {
  if (store_ != nullptr) report_.reclaimed += store_->stats().reclaimed_segments;
  store_.reset();
  apply_events();
  if (!machine_.power().on()) ++report_.cuts;
  note("life", machine_.power().on() ? 1 : 0);
  machine_.transfers().clear();
  machine_.index().clear_faults();
  machine_.fail_sync(0);
  machine_.switch_on();
}

bool Simulation::open(const LifePlan& plan) {
  Result<std::unique_ptr<storage::Store>> opened = machine_.open_store(plan.sizes);
  if (!opened) {
    const bool excused =
        in_doubt() || plan.transfers_may_fail() || machine_.transfers().injected() > 0;
    if (!excused) fail("the store does not open: " + opened.error().message());
    return false;
  }
  store_ = std::move(*opened);
  if (!store_->opened_empty_because().empty() && machine_.power().on()) {
    fail("the store opens empty: " + std::string(store_->opened_empty_because()));
    return false;
  }
  store_->on_dropped([this](std::span<const BlockKey> keys) {
    const std::lock_guard lock(events_mutex_);
    for (const BlockKey& key : keys) events_.push_back({key, {}, {}});
  });
  // A smaller store makes room at once, before there is anybody to tell.
  const std::uint64_t budget_bytes = Machine::budget_of_segments(plan.sizes);
  if (budget_bytes < last_budget_bytes_) evictables_may_be_gone();
  last_budget_bytes_ = budget_bytes;
  return register_spaces();
}

bool Simulation::register_spaces() {
  bool all = true;
  for (std::size_t i = 0; i < spaces_.size(); ++i) {
    const Result<NamespaceId> id = store_->register_namespace(spec_of(static_cast<int>(i)));
    if (!id) {
      all = false;
      if (!in_doubt() && !life_.transfers_may_fail() && life_.fail_sync == 0) {
        fail("a namespace can't be registered: " + id.error().message());
      }
      continue;
    }
    if (spaces_[i].known && spaces_[i].id != *id) fail("a namespace got another id");
    spaces_[i].id = *id;
    spaces_[i].known = true;
  }
  return all && running();
}

// --- steps ---------------------------------------------------------------------------------------

void Simulation::step() {
  ++report_.steps;
  switch (below(random_, 32)) {
    case 0: erase_space(); break;
    case 1:
    case 2: erase_some(); break;
    case 3:
    case 4: alter_some(); break;
    case 5:
    case 6:
    case 7:
    case 8: show_interest(); break;
    case 9: add_table(); break;
    case 10: bump_epoch(); break;
    case 11: pass_time(); break;
    case 12:
    case 13:
    case 14: read_some(); break;
    default: put_some(); break;
  }
  if (wakes_writer_) machine_.settle(*store_);
  wakes_writer_ = false;
  apply_events();
  check_budget();
}

Name Simulation::draw_name() {
  return {static_cast<int>(below(random_, spaces_.size())),
          static_cast<int>(below(random_, static_cast<std::uint64_t>(plan_.numbers)))};
}

BlockKey Simulation::key_of(const Name& name) const {
  return {spaces_[static_cast<std::size_t>(name.space)].id, digest_of(name.number), 0};
}

Name Simulation::name_of(const BlockKey& key) const {
  const auto space =
      std::ranges::find_if(spaces_, [&](const Space& known) { return known.id == key.ns; });
  return {static_cast<int>(space - spaces_.begin()), number_of(key.digest)};
}

Version Simulation::draw_version(const Name& name) {
  Version version;
  if (name.number > 0 && !one_in(random_, 4)) {
    version.parent = one_in(random_, 2) ? name.number - 1 : name.number / 2;
  }
  constexpr std::array<std::uint64_t, 4> bytes_max = {3'000, 12'000, 12'000, 40'000};
  version.bytes = 16 + below(random_, bytes_max[below(random_, bytes_max.size())]);
  version.codec = one_in(random_, 2) ? 1 : 2;
  const auto& tables = spaces_[static_cast<std::size_t>(name.space)].tables;
  if (!tables.empty() && one_in(random_, 2)) {
    version.table =
        std::next(tables.begin(), static_cast<std::ptrdiff_t>(below(random_, tables.size())))
            ->first;
  }
  return version;
}

void Simulation::put_some() {
  wakes_writer_ = true;
  std::set<Name> names;
  for (std::uint64_t i = 1 + below(random_, 10); i > 0; --i) names.insert(draw_name());
  std::uint64_t pushed = machine_.taken();
  for (const Name& name : names) pushed += start_put(name) ? 1 : 0;
  if (!one_in(random_, 6)) return;
  // While they are in a group that is not committed.
  machine_.wait_taken(pushed);
  apply_events();  // some were settled without a write, before what follows
  one_in(random_, 2) ? erase_some() : alter_some();
}

storage::AppendRequest Simulation::request_of(const Name& name, const State& state) const {
  const Version& version = model_.version(name, state.version);
  const ByteVector content = content_of(name, state.version, version.bytes);
  storage::AppendRequest request;
  request.key = key_of(name);
  if (version.parent) request.parent = digest_of(*version.parent);
  request.identity = identity_of(name);
  request.frame = storage::FrameBuffer(version.bytes);
  std::ranges::copy(content, request.frame.data());
  request.frame_bytes = version.bytes;
  request.raw_bytes = 2 * version.bytes;
  request.payload_xxh3 = version.checksum;
  request.codec = version.codec;
  request.table = version.table;
  request.pinned = state.pinned;
  request.expires_unix_ms = state.expires_unix_ms;
  return request;
}

bool Simulation::start_put(const Name& name) {
  State state;
  state.present = true;
  const std::vector<State> known = model_.states(name);
  const bool again = known.front().present && !one_in(random_, 4);
  state.version = again ? known.front().version : model_.add_version(name, draw_version(name));
  state.pinned = name.number % 8 == 3 && one_in(random_, 3);
  if (one_in(random_, 8)) {
    state.expires_unix_ms = machine_.clock().unix_ms() + 1'000 * (1 + below(random_, 200));
  }
  const Status pushed = store_->append(
      request_of(name, state), [this, key = key_of(name), state](Result<storage::IndexEntry> end) {
        const std::lock_guard lock(events_mutex_);
        events_.push_back({key, state, end ? std::optional<Error>() : end.error()});
      });
  ++report_.puts;
  if (!pushed && pushed.error().kind() == ErrorKind::invalid_argument) {
    fail(to_string(name) + " is refused: " + pushed.error().message());
  }
  return pushed.ok();
}

void Simulation::read_some() {
  wakes_writer_ = true;  // where a block is seen to be expired
  for (std::uint64_t i = 1 + below(random_, 6); i > 0; --i) check({draw_name()});
}

void Simulation::show_interest() {
  const Name name = draw_name();
  const BlockKey key = key_of(name);
  const std::uint64_t what = below(random_, 4);
  if (what == 0) {
    store_->hold({&key, 1});
    ++held_[name];
    note("hold " + to_string(name), 1);
  } else if (what == 1 && !held_.empty()) {
    const auto some =
        std::next(held_.begin(), static_cast<std::ptrdiff_t>(below(random_, held_.size())));
    const BlockKey held = key_of(some->first);
    store_->unhold({&held, 1});
    note("unhold " + to_string(some->first), 1);
    if (--some->second == 0) held_.erase(some);
  } else {
    store_->touch({&key, 1});
  }
}

void Simulation::alter_some() {
  const Name name = draw_name();
  const BlockKey key = key_of(name);
  if (one_in(random_, 2)) {
    const bool pinned = one_in(random_, 3);
    const bool done = store_->set_pinned({&key, 1}, pinned).ok();
    model_.altered(name, [&](State& state) { state.pinned = pinned; }, done);
    note("pin " + to_string(name), static_cast<std::uint64_t>(pinned));
  } else {
    const std::uint64_t expires =
        one_in(random_, 2) ? 0 : machine_.clock().unix_ms() + 1'000 * (1 + below(random_, 100));
    const bool done = store_->set_expiry({&key, 1}, expires).ok();
    model_.altered(name, [&](State& state) { state.expires_unix_ms = expires; }, done);
    note("expiry " + to_string(name), expires);
  }
}

void Simulation::erase_some() {
  std::vector<Name> names;
  std::vector<BlockKey> keys;
  for (std::uint64_t i = 1 + below(random_, 3); i > 0; --i) {
    names.push_back(draw_name());
    keys.push_back(key_of(names.back()));
  }
  const bool with_descendants = one_in(random_, 2);
  const bool also_pinned = one_in(random_, 2);
  const auto counts = store_->erase(keys, with_descendants, also_pinned);
  model_.erased(names, with_descendants, also_pinned, counts.ok());
  note("erase", counts ? counts->removed_blocks : 0);
}

void Simulation::erase_space() {
  const int space = static_cast<int>(below(random_, spaces_.size()));
  const bool also_pinned = one_in(random_, 2);
  const auto counts =
      store_->erase_namespace(spaces_[static_cast<std::size_t>(space)].id, also_pinned);
  model_.space_erased(space, also_pinned, counts.ok());
  note("erase", counts ? counts->removed_blocks : 0);
}

void Simulation::pass_time() {
  wakes_writer_ = true;  // for it may be time to look at the budget
  machine_.clock().advance(Milliseconds(1'000 * (1 + below(random_, 90))));
}

void Simulation::add_table() {
  constexpr std::size_t tables_max = 8;  // fewer than the store has room for
  wakes_writer_ = true;
  Space& space = spaces_[below(random_, spaces_.size())];
  if (space.tables.size() >= tables_max) return;
  const std::uint64_t bytes = 1 + below(random_, 5'000);
  const ByteVector table = content_of({7, static_cast<int>(space.id.value)}, random_(), bytes);
  const Result<TableId> id = store_->add_table(space.id, table);
  if (id) space.tables[*id] = table;
}

void Simulation::bump_epoch() {
  const std::size_t space = below(random_, spaces_.size());
  const NamespaceSpec spec = spec_of(static_cast<int>(space));
  const auto epoch = store_->bump_weight_epoch(spec.tenant, spec.model.fingerprint);
  if (!epoch) return;
  if (*epoch <= spaces_[space].epoch_min) fail("a weight epoch came twice");
  spaces_[space].epoch_min = *epoch;
}

// --- events and doubts ---------------------------------------------------------------------------

bool Simulation::in_doubt() const {
  return !machine_.power().on() || machine_.index_faults() > index_faults_at_start_;
}

void Simulation::apply_events() {
  std::vector<Event> events;
  {
    const std::lock_guard lock(events_mutex_);
    events.swap(events_);
  }
  put_now_.clear();
  for (const Event& event : events) {
    if (event.put) {
      apply_put(name_of(event.key), event);
    } else {
      apply_drop(name_of(event.key));
    }
  }
  widen_by_doubts();
}

void Simulation::apply_put(const Name& name, const Event& event) {
  if (!event.error) {
    note("put " + to_string(name) + to_string({*event.put}), event.put->version);
    model_.put_acknowledged(name, *event.put);
    put_now_.insert(name);
    return;
  }
  note("put failed " + to_string(name) + event.error->message(), event.put->version);
  if (event.error->kind() == ErrorKind::conflict) {
    model_.put_refused(name, event.put->version);
  } else {
    model_.put_failed(name, *event.put, in_doubt());
    if (in_doubt()) put_now_.insert(name);
  }
}

void Simulation::apply_drop(const Name& name) {
  note("dropped " + to_string(name), static_cast<std::uint64_t>(held_.contains(name)));
  const std::uint64_t now = machine_.clock().unix_ms();
  const bool must_stay = std::ranges::all_of(model_.states(name), [&](const State& state) {
    return state.present && !state.expired(now) && (state.pinned || held_.contains(name));
  });
  const bool condemned = machine_.syncs_failed() > syncs_failed_seen_;
  // Drops are told after the puts of the same turn, so one may be older than a put that was
  // acknowledged, or that failed and is there all the same.
  const bool older = put_now_.contains(name);
  if (must_stay && !condemned && !older)
    fail(to_string(name) + " was dropped while pinned or held");
  model_.dropped(name, !older);
}

void Simulation::widen_by_doubts() {
  if (machine_.syncs_failed() > syncs_failed_seen_) {
    syncs_failed_seen_ = machine_.syncs_failed();
    model_.any_may_be_gone([](const Name&, const State&) { return false; });
  }
  if (machine_.reclaim_in_doubt() && in_doubt()) evictables_may_be_gone();
  machine_.forget_doubt();
}

void Simulation::evictables_may_be_gone() {
  const std::uint64_t now = machine_.clock().unix_ms();
  model_.any_may_be_gone([&](const Name& name, const State& state) {
    return state.present && !state.expired(now) && (state.pinned || held_.contains(name));
  });
}

void Simulation::note(const std::string& what, std::uint64_t value) {
  if (traced_) {
    std::printf("  life %llu step %llu: %s %llu\n", static_cast<unsigned long long>(report_.lives),
                static_cast<unsigned long long>(report_.steps), what.c_str(),
                static_cast<unsigned long long>(value));
  }
  const std::uint64_t sum = storage::checksum(std::as_bytes(std::span(what)));
  report_.outcome = (report_.outcome ^ sum ^ value) * 0x100000001b3ULL + 1;
}

void Simulation::fail(const std::string& what) {
  std::string when =
      "life " + std::to_string(report_.lives) + ", step " + std::to_string(report_.steps) + ": ";
  model_.fail(when + what);
}

}  // namespace kvstrata::simulation
