#include "storage/recovery/found_blocks.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "storage/index/namespace_value.h"

namespace kvstrata::storage {

namespace {

std::uint64_t put_of(const RecordHeader& header) {
  const std::array<std::uint64_t, 5> fields = {header.payload_xxh3, header.frame_total_bytes,
                                               header.created_unix_ms, header.codec, header.table};
  return checksum(std::as_bytes(std::span(fields)));
}

FoundRecord record_of(const RecordHeader& header) {
  FoundRecord record;
  record.key = {NamespaceId{header.ns}, header.digest, header.group};
  record.sequence = header.sequence;
  record.put = put_of(header);
  record.where = {SegmentId{header.segment}, header.generation, header.offset, header.record_bytes};
  record.extent_index = header.extent_index;
  record.extent_count = header.extent_count;
  return record;
}

// The extents of the put that `first` begins, out of all records of its key (newest first); none
// if one is missing.
std::vector<FoundRecord> extents_of(const FoundRecord& first, std::span<const FoundRecord> of_key) {
  std::vector<FoundRecord> extents = {first};
  for (std::uint16_t index = 1; index < first.extent_count; ++index) {
    const auto found = std::ranges::find_if(of_key, [&](const FoundRecord& record) {
      return record.put == first.put && record.extent_index == index &&
             record.extent_count == first.extent_count;
    });
    if (found == of_key.end()) return {};
    extents.push_back(*found);
  }
  return extents;
}

std::vector<FoundRecord> newest_whole_put(std::span<const FoundRecord> of_key) {
  for (const FoundRecord& record : of_key) {
    if (record.extent_index != 0) continue;
    std::vector<FoundRecord> extents = extents_of(record, of_key);
    if (!extents.empty()) return extents;
  }
  return {};
}

}  // namespace

void FoundBlocks::add(const RecordHead& head) {
  const RecordHeader& header = head.header;
  const NamespaceId ns{header.ns};
  switch (header.kind) {
    case RecordKind::block: blocks_.push_back(record_of(header)); return;
    case RecordKind::table: {
      FoundRecord& table =
          tables_[{ns, TableId{load_le<std::uint32_t>(header.digest.bytes.data())}}];
      if (header.sequence >= table.sequence) table = record_of(header);
      return;
    }
    case RecordKind::name_space: {
      auto spec = parse_namespace_bytes(head.identity);
      if (!spec) return;
      FoundNamespace& found = namespaces_[ns];
      if (header.sequence >= found.sequence) found = {*std::move(spec), header.sequence};
      return;
    }
  }
}

std::vector<std::vector<FoundRecord>> FoundBlocks::newest_puts(std::uint64_t& incomplete) {
  std::ranges::sort(blocks_, [](const FoundRecord& a, const FoundRecord& b) {
    return std::tie(a.key, b.sequence) < std::tie(b.key, a.sequence);
  });
  std::vector<std::vector<FoundRecord>> puts;
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    const auto end = std::find_if(at, blocks_.end(),
                                  [&](const FoundRecord& other) { return other.key != at->key; });
    std::vector<FoundRecord> put = newest_whole_put({at, end});
    if (put.empty()) {
      ++incomplete;
    } else {
      puts.push_back(std::move(put));
    }
    at = end;
  }
  std::ranges::sort(puts, {}, [](const auto& put) { return put.front().sequence; });
  return puts;
}

}  // namespace kvstrata::storage
