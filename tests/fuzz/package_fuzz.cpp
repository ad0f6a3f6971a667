// Packages from anybody: every file is refused or can be computed with, whatever it says.
#include <algorithm>
#include <cstring>
#include <vector>

#include "predictor/package.h"
#include "tests/predictor/tiny_package.h"

using namespace kvstrata;
using namespace kvstrata::predictor;
using namespace kvstrata::test;

namespace {

const ByteVector& example() {
  static const ByteVector file =
      package_of(TinyModel({.name = "fuzz", .bias = true, .qk_norm = true, .weight_bits = 8}),
                 false, {"statistics"})
          .value();
  return file;
}

/// One more section, where it would have to be.
void append_entry(ByteVector& file, std::uint64_t bytes) {
  PackageHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.entries >= package_entries_max) return;
  PackageEntry entry{};
  entry.kind = SectionKind::statistics;
  entry.index = header.entries - weight_sections;
  entry.offset = round_up(file.size(), package_alignment);
  entry.bytes = bytes;
  std::memcpy(file.data() + sizeof header + header.entries * sizeof entry, &entry, sizeof entry);
  ++header.entries;
  std::memcpy(file.data(), &header, sizeof header);
}

/// Tokens run through what was read, by sanitizers' leave.
void compute_with(const Model& model) {
  std::vector<std::uint32_t> tokens(key_block);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    tokens[t] = static_cast<std::uint32_t>(t * 7919) % model.config.vocab;
  }
  KvSequence sequence = make_sequence(model);
  Forward forward(model, sequence, tokens);
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    const Expected expected = forward.expect();
    forward.know(expected.k, expected.v);
  }
}

}  // namespace

/// An input is edits of a good package: five bytes each, where and what.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 200) return 0;
  ByteVector file = example();
  for (std::size_t i = 0; i + 5 <= size; i += 5) {
    const std::uint32_t at = load_le<std::uint32_t>(reinterpret_cast<const std::byte*>(data) + i);
    // Header and config are few bytes of many: half of all edits go there.
    const std::size_t place = at % 2 == 0 ? at / 2 % 600 : at % 3 == 0 ? 4096 + at / 8 % 96 : at;
    file[place % file.size()] = static_cast<std::byte>(data[i + 4]);
  }
  if (size % 5 == 1)
    file.resize(std::max<std::size_t>(package_header_bytes, data[0] * file.size() / 256));
  if (size % 5 == 2) append_entry(file, data[0] % 4);
  store_le<std::uint64_t>(file.data() + offsetof(PackageHeader, file_bytes), file.size());
  reseal(file);
  const auto package = Package::parse(file, nullptr);
  if (package) compute_with((*package)->model());
  return 0;
}
