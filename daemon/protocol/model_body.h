// REGISTER's request: a ModelDescriptor and what else makes a namespace, as body fields.
// Stateless; any thread.
#pragma once

#include "daemon/protocol/body.h"
#include "kvstrata/keys.h"
#include "kvstrata/model.h"

namespace kvstrata::protocol {

/// The `model` map. Fields at their default are left out.
Body encode_model(const ModelDescriptor& descriptor);

/// A descriptor that passes validate(), or `invalid_argument` naming the field.
Result<ModelDescriptor> decode_model(const Body& body);

/// Sets model, salt, adapter and extra_keys; tenant and weight epoch are the daemon's and stay out.
void encode_register(const NamespaceSpec& spec, Body& body);

/// A spec whose tenant is empty and weight_epoch 0.
Result<NamespaceSpec> decode_register(const Body& body);

}  // namespace kvstrata::protocol
