#include "tests/simulation/model.h"

#include <algorithm>
#include <set>

#include "storage/segment/record.h"

namespace kvstrata::simulation {

namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

ByteVector content_of(const Name& name, std::size_t version, std::uint64_t bytes) {
  ByteVector content(bytes);
  std::uint64_t state = mix(static_cast<std::uint64_t>(name.space) << 48 |
                            static_cast<std::uint64_t>(name.number) << 24 | version);
  for (std::uint64_t at = 0; at < bytes; at += 8) {
    state += 0x9e3779b97f4a7c15ULL;
    const std::uint64_t word = mix(state);
    std::memcpy(content.data() + at, &word, std::min<std::uint64_t>(8, bytes - at));
  }
  return content;
}

ByteVector identity_of(const Name& name) {
  ByteVector identity;
  append_le(identity, static_cast<std::uint32_t>(name.space));
  append_le(identity, static_cast<std::uint32_t>(name.number));
  return identity;
}

Hash256 digest_of(int number) {
  Hash256 digest;
  store_le(digest.bytes.data(), mix(static_cast<std::uint64_t>(number) + 1));
  store_le(digest.bytes.data() + 8, static_cast<std::uint64_t>(number));
  return digest;
}

int number_of(const Hash256& digest) {
  return static_cast<int>(load_le<std::uint64_t>(digest.bytes.data() + 8));
}

std::string to_string(const Name& name) {
  return "block " + std::to_string(name.space) + "/" + std::to_string(name.number);
}

std::string to_string(const std::vector<State>& states) {
  std::string text;
  for (const State& state : states) {
    text += text.empty() ? "" : " or ";
    text += !state.present
                ? "absent"
                : "version " + std::to_string(state.version) + (state.pinned ? " pinned" : "") +
                      (state.expires_unix_ms != 0 ? " expiring" : "");
  }
  return text;
}

void Model::fail(std::string what) {
  failures_.push_back(std::move(what));
}

std::size_t Model::add_version(const Name& name, Version version) {
  Block& known = block(name);
  version.checksum = storage::checksum(content_of(name, known.versions.size(), version.bytes));
  known.versions.push_back(version);
  return known.versions.size() - 1;
}

const Version& Model::version(const Name& name, std::size_t version) const {
  return blocks_.at(name).versions.at(version);
}

std::vector<State> Model::states(const Name& name) const {
  const auto found = blocks_.find(name);
  return found == blocks_.end() ? std::vector<State>{State{}} : found->second.states;
}

std::vector<Name> Model::names() const {
  std::vector<Name> names;
  for (const auto& [name, known] : blocks_) names.push_back(name);
  return names;
}

void Model::widen(Block& block, const State& state) {
  if (std::ranges::find(block.states, state) == block.states.end()) block.states.push_back(state);
}

// --- what was done -------------------------------------------------------------------------------

void Model::put_acknowledged(const Name& name, const State& state) {
  block(name).states = {state};
}

void Model::put_failed(const Name& name, const State& state, bool may_be_there) {
  if (may_be_there) widen(block(name), state);
}

void Model::put_refused(const Name& name, std::size_t version) {
  Block& known = block(name);
  std::erase_if(known.states,
                [&](const State& state) { return !state.present || state.version == version; });
  if (known.states.empty()) fail(to_string(name) + ": a conflict with bytes that are not there");
}

void Model::dropped(const Name& name, bool for_certain) {
  Block& known = block(name);
  if (for_certain) known.states = {State{}};
  widen(known, {});
}

void Model::altered(const Name& name, const std::function<void(State&)>& change, bool for_certain) {
  Block& known = block(name);
  for (State state : std::vector<State>(known.states)) {
    if (!state.present) continue;
    if (for_certain) std::erase(known.states, state);
    change(state);
    widen(known, state);
  }
}

// Through blocks that are there: what continues an absent one is listed under it all the same, but
// behind an absent child nothing is found.
std::vector<Name> Model::reached(const std::vector<Name>& roots, bool for_certain) const {
  std::set<Name> reached(roots.begin(), roots.end());
  for (bool more = true; more;) {
    more = false;
    for (const auto& [name, known] : blocks_) {
      if (reached.contains(name)) continue;
      const auto continues = [&](const State& state) {
        if (!state.present) return false;
        const std::optional<int> parent = known.versions[state.version].parent;
        return parent && reached.contains({name.space, *parent});
      };
      const bool is_reached = for_certain ? std::ranges::all_of(known.states, continues)
                                          : std::ranges::any_of(known.states, continues);
      more = more || is_reached;
      if (is_reached) reached.insert(name);
    }
  }
  return {reached.begin(), reached.end()};
}

void Model::erase_one(const Name& name, bool also_pinned, bool for_certain) {
  Block& known = block(name);
  for (const State& state : std::vector<State>(known.states)) {
    if (!state.present || (state.pinned && !also_pinned)) continue;
    if (for_certain) std::erase(known.states, state);
    widen(known, {});
  }
}

void Model::erased(const std::vector<Name>& roots, bool with_descendants, bool also_pinned,
                   bool for_certain) {
  const std::vector<Name> may = with_descendants ? reached(roots, false) : roots;
  const std::vector<Name> must = with_descendants ? reached(roots, true) : roots;
  for (const Name& name : may) {
    const bool certain = for_certain && std::ranges::find(must, name) != must.end();
    erase_one(name, also_pinned, certain);
  }
}

void Model::space_erased(int space, bool also_pinned, bool for_certain) {
  for (const Name& name : names()) {
    if (name.space == space) erase_one(name, also_pinned, for_certain);
  }
}

void Model::any_may_be_gone(const std::function<bool(const Name&, const State&)>& stays) {
  for (auto& [of, known] : blocks_) {
    const Name& name = of;
    const auto can_not_go = [&](const State& state) { return stays(name, state); };
    if (!std::ranges::all_of(known.states, can_not_go)) widen(known, {});
  }
}

// --- what the store says -------------------------------------------------------------------------

std::optional<State> Model::state_of(const Name& name, const storage::IndexEntry& entry) const {
  const auto found = blocks_.find(name);
  if (found == blocks_.end()) return std::nullopt;
  const std::vector<Version>& versions = found->second.versions;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const Version& version = versions[i];
    const std::optional<Hash256> parent =
        version.parent ? std::optional(digest_of(*version.parent)) : std::nullopt;
    if (version.checksum == entry.payload_xxh3 && version.bytes == entry.frame_bytes &&
        entry.raw_bytes == 2 * version.bytes && version.table == entry.table &&
        version.codec == entry.codec && parent == entry.parent) {
      return State{true, i, entry.pinned, entry.expires_unix_ms};
    }
  }
  return std::nullopt;
}

void Model::observe(const Name& name, const std::optional<storage::IndexEntry>& entry,
                    std::uint64_t now_unix_ms) {
  Block& known = block(name);
  const std::vector<State> before = known.states;
  if (!entry) {
    // An expired block counts as absent, and leaves the index when the writer gets to it.
    std::erase_if(known.states,
                  [&](const State& state) { return state.present && !state.expired(now_unix_ms); });
    if (known.states.empty()) fail(to_string(name) + " is lost; it was " + to_string(before));
    if (!known.states.empty()) widen(known, {});
    return;
  }
  const std::optional<State> state = state_of(name, *entry);
  if (!state || std::ranges::find(known.states, *state) == known.states.end()) {
    fail(to_string(name) + " is a phantom: found " +
         (state ? to_string(std::vector{*state}) : "what was never put") + "; it was " +
         to_string(before));
    return;
  }
  known.states = {*state};
}

void Model::check_listed(const Name& name, const storage::IndexEntry& entry) {
  const std::optional<State> state = state_of(name, entry);
  const std::vector<State> may_be = states(name);
  if (!state || std::ranges::find(may_be, *state) == may_be.end()) {
    fail(to_string(name) + " is listed as " +
         (state ? to_string(std::vector{*state}) : "what was never put") + "; it was " +
         to_string(may_be));
  }
}

void Model::check_record(const Name& name, const storage::IndexEntry& entry,
                         const storage::ReadRecord& record) {
  const std::optional<State> state = state_of(name, entry);
  if (!state) return;  // observe() has said so
  const std::uint64_t bytes = version(name, state->version).bytes;
  if (!std::ranges::equal(record.frame, content_of(name, state->version, bytes))) {
    fail(to_string(name) + ": wrong bytes");
  }
  if (!std::ranges::equal(record.identity, identity_of(name))) {
    fail(to_string(name) + ": wrong identity");
  }
}

}  // namespace kvstrata::simulation
