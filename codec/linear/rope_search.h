// Finding out how an engine turns K: from K alone, since no descriptor says it.
#pragma once

#include <span>

#include "codec/linear/linear_model.h"

namespace kvstrata::codec {

/// The RopeSpec, of those that models use, with which K taken back to position 0 has the largest
/// means against its spread: only the right one lets the means of all tokens add up. rotary_dim 0
/// if none does clearly better than K as it is. Payloads of a checked `shape`, at positions that
/// differ; a bounded sample of them is looked at. Deterministic.
RopeSpec find_rope(const BlockShape& shape, std::span<const PlacedPayload> payloads);

}  // namespace kvstrata::codec
