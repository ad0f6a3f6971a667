// The name a person probably meant. Stateless; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvstrata::daemon {

/// The candidate with the smallest edit distance to `name`; empty if none is near enough to help.
std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace kvstrata::daemon
