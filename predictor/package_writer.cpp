#include "predictor/package_writer.h"

#include <cstring>
#include <string>
#include <utility>

#include "include/impl/blake2b.h"
#include "kvstrata/checksum.h"
#include "predictor/package_layout.h"

namespace kvstrata::predictor {

struct PackageWriter::Section {
  Section(SectionKind kind, std::uint32_t index, std::uint64_t offset, std::uint64_t bytes) {
    entry.kind = kind;
    entry.index = index;
    entry.offset = offset;
    entry.bytes = bytes;
  }
  std::uint64_t end() const { return entry.offset + entry.bytes; }
  bool is_whole() const { return written == entry.bytes; }

  PackageEntry entry{};
  std::uint64_t written = 0;
  Blake2b hash;
};

PackageWriter::PackageWriter(Sink sink) : sink_(std::move(sink)) {}
PackageWriter::PackageWriter(PackageWriter&&) noexcept = default;
PackageWriter::~PackageWriter() = default;

Result<PackageWriter> PackageWriter::begin(const PackageConfig& config, Sink sink) {
  if (const Status status = check_config(config); !status) {
    return Error(ErrorKind::invalid_argument, status.error().message());
  }
  PackageWriter writer(std::move(sink));
  const PackageLayout layout(config);
  std::uint64_t offset = package_header_bytes;
  for (std::uint16_t kind = 1; kind <= weight_sections; ++kind) {
    const auto section = static_cast<SectionKind>(kind);
    const std::uint64_t bytes = layout.section_bytes(section);
    if (bytes > section_bytes_max) {
      return Error(ErrorKind::too_large,
                   "package: a section of " + std::to_string(bytes) + " bytes; the limit is a TiB");
    }
    writer.sections_.push_back(std::make_unique<Section>(section, 0, offset, bytes));
    offset = round_up(offset + bytes, package_alignment);
  }
  KV_TRY(writer.append(SectionKind::config, std::as_bytes(std::span(&config, 1))));
  return writer;
}

Status PackageWriter::write(Section& section, ByteView bytes) {
  KV_TRY(sink_(section.entry.offset + section.written, bytes));
  section.hash.add(bytes);
  section.written += bytes.size();
  return {};
}

Status PackageWriter::append(SectionKind kind, ByteView bytes) {
  const auto number = static_cast<std::size_t>(kind) - 1;
  if (number >= weight_sections) {
    return Error(ErrorKind::invalid_argument, "package: no section of weights");
  }
  Section& section = *sections_[number];
  if (bytes.size() > section.entry.bytes - section.written) {
    return Error(ErrorKind::invalid_argument,
                 "package: more than section " + std::to_string(number + 1) + " has room for");
  }
  return write(section, bytes);
}

Status PackageWriter::add_statistics(ByteView bytes) {
  const auto index = static_cast<std::uint32_t>(sections_.size() - weight_sections);
  if (bytes.empty()) return Error(ErrorKind::invalid_argument, "package: empty statistics");
  if (sections_.size() == package_entries_max) {
    return Error(ErrorKind::too_large, "package: too many statistics");
  }
  auto section =
      std::make_unique<Section>(SectionKind::statistics, index,
                                round_up(sections_.back()->end(), package_alignment), bytes.size());
  KV_TRY(write(*section, bytes));
  sections_.push_back(std::move(section));
  return {};
}

Status PackageWriter::finish() {
  ByteVector header_bytes(package_header_bytes);
  std::byte* const table = header_bytes.data() + sizeof(PackageHeader);
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    Section& section = *sections_[i];
    if (!section.is_whole()) {
      return Error(ErrorKind::invalid_argument,
                   "package: section " + std::to_string(i + 1) + " is short");
    }
    section.entry.hash = section.hash.finish();
    std::memcpy(table + i * sizeof(PackageEntry), &section.entry, sizeof(PackageEntry));
  }
  PackageHeader header{};
  header.magic = package_magic;
  header.version = package_version;
  header.header_bytes = package_header_bytes;
  header.file_bytes = sections_.back()->end();
  header.entries = static_cast<std::uint32_t>(sections_.size());
  header.weights_hash = blake2b({table, weight_sections * sizeof(PackageEntry)});
  std::memcpy(header_bytes.data(), &header, sizeof header);
  header.header_xxh3 = xxh3(header_bytes);
  std::memcpy(header_bytes.data(), &header, sizeof header);
  KV_TRY(sink_(0, header_bytes));
  weights_hash_ = header.weights_hash;
  return {};
}

}  // namespace kvstrata::predictor
