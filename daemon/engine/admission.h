// An AdmissionPolicy decides which blocks are written to the disk tier. It is told when a block
// becomes visible and when one that it declined is wanted again; it knows keys, never bytes.
// Control thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kvstrata/clock.h"
#include "kvstrata/keys.h"
#include "kvstrata/result.h"

namespace kvstrata::daemon {

/// Whether the disk tier still has empty space, or gives blocks up for every new one.
enum class DiskRoom : std::uint8_t { plenty, scarce };

class AdmissionPolicy {
 public:
  virtual ~AdmissionPolicy() = default;

  virtual std::string_view name() const = 0;
  /// A block became visible. False: it stays in host memory alone, until it is wanted again.
  virtual bool admits_new(const BlockKey& key, DiskRoom room) = 0;
  /// A block that was declined is wanted again: a look-up found it, or it was put once more.
  virtual bool admits_again(const BlockKey& key) = 0;
};

/// "all": every block is written.
std::unique_ptr<AdmissionPolicy> make_admit_all();

/// How long, and how many of, the keys that were put are remembered. The memory is two generations
/// of 64-bit hashes, each of half of `keys_max`: some 20 MiB in all for this bound.
struct SecondUseMemory {
  std::size_t keys_max = std::size_t{1} << 20;
  Milliseconds period{std::chrono::minutes(20)};  ///< at least; twice that at most
};

/// "second-use": a block is written once its key was wanted again. While the disk has plenty of
/// room it admits all: what nothing has to make room for costs no hits.
std::unique_ptr<AdmissionPolicy> make_admit_on_second_use(const Clock& clock,
                                                          SecondUseMemory memory = {});

/// A policy by its name; `invalid_argument` names those there are.
Result<std::unique_ptr<AdmissionPolicy>> make_admission_policy(std::string_view name,
                                                               const Clock& clock);

}  // namespace kvstrata::daemon
