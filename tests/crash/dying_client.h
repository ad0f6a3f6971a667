// A dying client: a process of its own that is killed by SIGKILL in the middle of handing a value
// over, in one of several ways. Nothing it began may ever be found.
#pragma once

#include <cstdint>
#include <string>

#include "kvstrata/result.h"

namespace kvstrata::test {

enum class DeathWay : std::uint8_t {
  between_reserve_and_commit,  ///< with half of the staging memory written
  half_a_message,              ///< with half of a PUT sent
};
inline constexpr std::uint64_t death_ways = 2;

/// What such a client would have stored: a value of the tenant's thread 0.
std::string name_of_unborn(std::uint64_t number);

/// Starts this program again as a dying client and waits for its end; an error if it did not die by
/// SIGKILL where it should have.
Status let_a_client_die(const std::string& address, std::uint32_t tenant, std::uint64_t number);

/// What main() does first: plays the dying client if this process was started as one.
void play_dying_client(int argc, char** argv);

}  // namespace kvstrata::test
