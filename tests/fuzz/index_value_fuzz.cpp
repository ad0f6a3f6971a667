// Keys and values of a damaged index: every input is an error or parses to something that
// serialises back to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvstrata/check.h"
#include "storage/index/block_value.h"
#include "storage/index/index_keys.h"
#include "storage/index/namespace_value.h"
#include "storage/index/segment_value.h"

using namespace kvstrata;
using namespace kvstrata::storage;

namespace {

void check_values(std::string_view text) {
  if (const auto entry = parse_block_value(text)) {
    KV_CHECK(block_value(*entry) == text, "writing changed a block value");
    KV_CHECK(entry->frame_bytes <= entry->record_bytes(), "a frame larger than its records");
  }
  if (const auto table = parse_table_value(text)) {
    KV_CHECK(table_value(*table) == text, "writing changed a table value");
  }
  if (const auto placement = parse_placement_value(text)) {
    KV_CHECK(placement_value(*placement) == text, "writing changed a placement");
  }
  if (const auto segment = parse_segment_value(text)) {
    KV_CHECK(segment_value(*segment) == text, "writing changed a segment value");
  }
  if (const auto number = parse_number_value(text)) {
    KV_CHECK(number_value(*number) == text, "writing changed a number");
  }
  if (const auto ns = parse_namespace_value(text)) {
    KV_CHECK(namespace_value(*ns) == text, "writing changed a namespace");
  }
  if (const auto spec = parse_namespace_bytes(as_bytes(text))) {
    KV_CHECK(std::ranges::equal(namespace_bytes(*spec), as_bytes(text)), "two spellings of a spec");
  }
}

void check_keys(std::string_view text) {
  if (const auto key = parse_block_key(text)) {
    KV_CHECK(block_key(*key) == text, "writing changed a block key");
  }
  if (const auto child = parse_child_of(text)) {
    const auto parent = parse_block_key(text.substr(0, block_key_bytes));
    KV_CHECK(parent && child_key(*parent, *child) == text, "writing changed a child key");
  }
  if (const auto segment = parse_segment_key(text)) {
    KV_CHECK(segment_key(*segment) == text, "writing changed a segment key");
  }
  if (const auto ns = parse_namespace_key(text)) {
    KV_CHECK(namespace_key(*ns) == text, "writing changed a namespace key");
  }
  if (const auto table = parse_table_key(text)) {
    KV_CHECK(table_key(table->ns, table->table) == text, "writing changed a table key");
  }
  if (const auto epoch = parse_epoch_key(text)) {
    KV_CHECK(epoch_key(epoch->tenant, epoch->fingerprint) == text, "writing changed an epoch key");
  }
}

// A spec made of the input's bytes comes back from its canonical bytes.
void check_spec(std::string_view text) {
  NamespaceSpec spec;
  const std::size_t third = text.size() / 3;
  spec.tenant = text.substr(0, third);
  spec.salt = text.substr(third, third);
  spec.model.fingerprint = text.substr(2 * third);
  spec.model.groups.resize(text.size() % 5);
  spec.extra_keys.assign(text.size() % 4, spec.salt);
  const ByteVector bytes = namespace_bytes(spec);
  const Result<NamespaceSpec> parsed = parse_namespace_bytes(bytes);
  if (bytes.size() > identity_bytes_max) return;
  KV_CHECK(parsed.ok(), "canonical bytes that don't parse");
  KV_CHECK(parsed->tenant == spec.tenant && parsed->salt == spec.salt, "a field changed");
  KV_CHECK(parsed->model == spec.model && parsed->extra_keys == spec.extra_keys, "a field changed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_values(text);
  check_keys(text);
  check_spec(text);
  return 0;
}
