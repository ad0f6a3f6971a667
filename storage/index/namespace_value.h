// The value of the `namespaces` column family, and the way back from namespace_bytes() to a spec.
#pragma once

#include <string>
#include <string_view>

#include "kvstrata/keys.h"
#include "kvstrata/result.h"
#include "storage/index_entry.h"

namespace kvstrata::storage {

/// The spec whose namespace_bytes() are `bytes`; every other input is `corrupt`.
Result<NamespaceSpec> parse_namespace_bytes(ByteView bytes);

struct NamespaceValue {
  std::uint64_t created_unix_ms = 0;
  RecordLocation where;  ///< of the record that recovery rebuilds it from
  NamespaceSpec spec;
};
std::string namespace_value(const NamespaceValue& value);
Result<NamespaceValue> parse_namespace_value(std::string_view text);

}  // namespace kvstrata::storage
