#include "daemon/engine/admission.h"

#include <boost/unordered/unordered_flat_set.hpp>
#include <string>
#include <utility>

#include "include/impl/block_map.h"

namespace kvstrata::daemon {

namespace {

class AdmitAll final : public AdmissionPolicy {
 public:
  std::string_view name() const override { return "all"; }
  bool admits_new(const BlockKey&, DiskRoom) override { return true; }
  bool admits_again(const BlockKey&) override { return true; }
};

// Hashes of the keys put lately, in two generations: the older one is dropped whole, so that no
// key needs a time or a place in a list. Two keys with one hash only cause a write too early.
class KeyMemory {
 public:
  KeyMemory(const Clock& clock, SecondUseMemory bounds)
      : clock_(clock), bounds_(bounds), began_(clock.now()) {}

  /// Remembers the key from now on. True: it was remembered already.
  bool remember(const BlockKey& key) {
    forget_what_is_old();
    const std::uint64_t hash = SeededBlockHash{}(key);
    const bool known = young_.contains(hash) || old_.contains(hash);
    if (young_.insert(hash).second && young_.size() >= bounds_.keys_max / 2) {
      start_generation(clock_.now());
    }
    return known;
  }

 private:
  void forget_what_is_old() {
    const MonotonicTime now = clock_.now();
    if (now - began_ < bounds_.period) return;
    if (now - began_ >= 2 * bounds_.period) {
      young_.clear();
      start_generation(now);
    } else {
      start_generation(began_ + bounds_.period);
    }
  }

  void start_generation(MonotonicTime at) {
    old_ = std::exchange(young_, {});
    began_ = at;
  }

  const Clock& clock_;
  const SecondUseMemory bounds_;
  MonotonicTime began_;  ///< of the young generation
  boost::unordered_flat_set<std::uint64_t> young_, old_;
};

class AdmitOnSecondUse final : public AdmissionPolicy {
 public:
  AdmitOnSecondUse(const Clock& clock, SecondUseMemory memory) : seen_(clock, memory) {}

  std::string_view name() const override { return "second-use"; }
  bool admits_new(const BlockKey& key, DiskRoom room) override {
    const bool was_seen = seen_.remember(key);
    return was_seen || room == DiskRoom::plenty;
  }
  bool admits_again(const BlockKey&) override { return true; }

 private:
  KeyMemory seen_;
};

}  // namespace

std::unique_ptr<AdmissionPolicy> make_admit_all() {
  return std::make_unique<AdmitAll>();
}

std::unique_ptr<AdmissionPolicy> make_admit_on_second_use(const Clock& clock,
                                                          SecondUseMemory memory) {
  return std::make_unique<AdmitOnSecondUse>(clock, memory);
}

Result<std::unique_ptr<AdmissionPolicy>> make_admission_policy(std::string_view name,
                                                               const Clock& clock) {
  if (name == "all") return make_admit_all();
  if (name == "second-use") return make_admit_on_second_use(clock);
  return Error(ErrorKind::invalid_argument, "admission \"" + std::string(name.substr(0, 40)) +
                                                "\" is not one of \"all\", \"second-use\"");
}

}  // namespace kvstrata::daemon
