// A Model is what a simulation knows of a store's blocks: for each, the states it may be in. What
// was acknowledged leaves one; what was in flight when the power went leaves several, until the
// store is asked. Any answer outside of them is a failure: a lost block, a phantom, wrong bytes.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "storage/store.h"

namespace kvstrata::simulation {

/// A block's name: which namespace of the simulation, and which number in it.
struct Name {
  int space = 0;
  int number = 0;

  friend auto operator<=>(const Name&, const Name&) = default;
};

/// What was put under a name once; each put of new bytes is a version.
struct Version {
  std::optional<int> parent;  ///< number of the block it continues, in the same namespace
  std::uint64_t bytes = 0;
  TableId table;
  std::uint8_t codec = 1;
  std::uint64_t checksum = 0;  ///< of its content
};

struct State {
  bool present = false;
  std::size_t version = 0;
  bool pinned = false;
  std::uint64_t expires_unix_ms = 0;

  bool expired(std::uint64_t now_unix_ms) const {
    return expires_unix_ms != 0 && expires_unix_ms <= now_unix_ms;
  }
  friend bool operator==(const State&, const State&) = default;
};

/// Content and identity follow from name and version, so that every byte can be judged.
ByteVector content_of(const Name& name, std::size_t version, std::uint64_t bytes);
ByteVector identity_of(const Name& name);
/// The same in every namespace, so that an answer from the wrong one is noticed.
Hash256 digest_of(int number);
int number_of(const Hash256& digest);

class Model {
 public:
  std::size_t add_version(const Name& name, Version version);
  const Version& version(const Name& name, std::size_t version) const;
  std::vector<State> states(const Name& name) const;
  std::vector<Name> names() const;

  void put_acknowledged(const Name& name, const State& state);
  void put_failed(const Name& name, const State& state, bool may_be_there);
  /// The store says that other bytes are there; what that is found to be, or a failure.
  void put_refused(const Name& name, std::size_t version);
  void dropped(const Name& name, bool for_certain);
  void altered(const Name& name, const std::function<void(State&)>& change, bool for_certain);
  /// Everything that erase() reaches from `roots`.
  void erased(const std::vector<Name>& roots, bool with_descendants, bool also_pinned,
              bool for_certain);
  void space_erased(int space, bool also_pinned, bool for_certain);
  /// Any block may be gone, but those in states of which `stays` says that they can't be.
  void any_may_be_gone(const std::function<bool(const Name&, const State&)>& stays);

  /// Whether `entry` is an answer that the store may give for this block; what is left of its
  /// states is those that agree with it.
  void observe(const Name& name, const std::optional<storage::IndexEntry>& entry,
               std::uint64_t now_unix_ms);
  /// Whether `entry` may be in the index, found or expired; learns nothing from it.
  void check_listed(const Name& name, const storage::IndexEntry& entry);
  void check_record(const Name& name, const storage::IndexEntry& entry,
                    const storage::ReadRecord& record);

  void fail(std::string what);
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  struct Block {
    std::vector<Version> versions;
    std::vector<State> states{State{}};
  };

  Block& block(const Name& name) { return blocks_[name]; }
  void widen(Block& block, const State& state);
  std::optional<State> state_of(const Name& name, const storage::IndexEntry& entry) const;
  std::vector<Name> reached(const std::vector<Name>& roots, bool for_certain) const;
  void erase_one(const Name& name, bool also_pinned, bool for_certain);

  std::map<Name, Block> blocks_;
  std::vector<std::string> failures_;
};

std::string to_string(const Name& name);
std::string to_string(const std::vector<State>& states);

}  // namespace kvstrata::simulation
