// The page of a comparison: one HTML file that needs no network, with bits a scalar by layer and
// channel as heat maps, and the figures on hover.
#pragma once

#include <string>
#include <vector>

#include "tools/kvstrata/container/comparison.h"

namespace kvstrata::tool {

std::string heat_map_page(const std::vector<Comparison>& comparisons);

}  // namespace kvstrata::tool
