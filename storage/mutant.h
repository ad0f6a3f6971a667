// mutant(): whether a mistake that was planted in the storage is switched on. The tests of crashes
// and faults must notice each; a build without -Dmutants=true has none of them, at no cost.
//
// Threads: switched while nothing of the storage runs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#ifdef KVSTRATA_MUTANTS
#include <atomic>
#endif

namespace kvstrata::storage {

enum class Mutant : std::uint8_t {
  none,
  no_data_sync,               ///< segments are never synced
  index_before_data,          ///< the index is written, then the data synced
  no_directory_sync,          ///< names of new segments are never synced
  reuse_before_index_delete,  ///< a segment is reused when its removal is written, not yet synced
  retried_sync,               ///< a failed sync is tried again, and the second success believed
  short_read_as_full,         ///< a read that moved too little counts as done
};
inline constexpr std::array<std::string_view, 7> mutant_names = {"none",
                                                                 "no-data-sync",
                                                                 "index-before-data",
                                                                 "no-directory-sync",
                                                                 "reuse-before-index-delete",
                                                                 "retried-sync",
                                                                 "short-read-as-full"};

#ifdef KVSTRATA_MUTANTS
inline constexpr bool has_mutants = true;
inline std::atomic<Mutant> active_mutant{Mutant::none};
inline bool mutant(Mutant mutant) {
  return active_mutant == mutant;
}
inline void activate(Mutant mutant) {
  active_mutant = mutant;
}
#else
inline constexpr bool has_mutants = false;
constexpr bool mutant(Mutant) {
  return false;
}
inline void activate(Mutant) {}
#endif

}  // namespace kvstrata::storage
