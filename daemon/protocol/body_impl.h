// The inside of a Body, for body*.cpp only: this is where the JSON library is.
#pragma once

#include <nlohmann/json.hpp>

#include "daemon/protocol/body.h"

namespace kvstrata::protocol {

using Json = nlohmann::json;

struct Body::Impl {
  Json map = Json::object();
};

/// Exactly one map within all limits, or `invalid_argument`.
Result<Json> parse_map(ByteView bytes);

}  // namespace kvstrata::protocol
