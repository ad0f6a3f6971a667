// Names the first field in which two namespaces differ, for EXPLAIN.
#pragma once

#include <string>

#include "kvstrata/keys.h"

namespace kvstrata::daemon {

struct SpecDifference {
  std::string field;  ///< "salt", "model.dtype", ...; empty: none
  std::string text;   ///< "salt is 'a' here, 'b' there"
};

SpecDifference first_difference(const NamespaceSpec& here, const NamespaceSpec& there);

}  // namespace kvstrata::daemon
