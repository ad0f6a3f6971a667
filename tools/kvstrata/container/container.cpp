#include "tools/kvstrata/container/container.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "codec/frame_format.h"
#include "tools/kvstrata/container/output_file.h"

namespace kvstrata::tool {

namespace {

template <typename Record>
std::vector<Record> records_at(ByteView bytes, std::uint64_t at, std::uint32_t count) {
  std::vector<Record> records(count);
  if (count != 0) std::memcpy(records.data(), &bytes[at], count * sizeof(Record));
  return records;
}

/// What is wrong with the header, or nullptr. The version is right.
const char* find_fault(const ContainerHeader& header) {
  if (std::ranges::any_of(header.reserved, [](std::uint8_t byte) { return byte != 0; })) {
    return "its header uses reserved bits";
  }
  if (header.file_bytes == 0 || header.file_bytes > file_bytes_max) return "its decoded length";
  if (header.parts == 0 || header.parts > parts_max) return "its number of parts";
  if (header.sets > sets_max) return "its number of tables";
  const std::uint64_t least = header.parts * sizeof(PartRecord) + header.sets * sizeof(SetRecord);
  if (header.description_bytes < least || header.description_bytes > description_bytes_max) {
    return "the length of its description";
  }
  if (header.container_bytes < sizeof header + header.description_bytes) return "its length";
  return nullptr;
}

std::uint64_t tables_bytes_max(const codec::TableSet::Dimensions& dimensions) {
  return sizeof(codec::TablesHeader) + codec::tables_max * sizeof(codec::TableRecord) +
         dimensions.index_bytes();
}

}  // namespace

Error Container::corrupt(const std::string& what) const {
  return {ErrorKind::corrupt, file_.path() + " is damaged: " + what};
}

Result<Container> Container::open(const std::string& path) {
  Container container;
  KV_ASSIGN(container.file_, InputFile::open(path));
  KV_TRY(container.read_header());
  KV_TRY(container.read_description());
  return container;
}

Status Container::read_header() {
  if (file_.bytes() >= sizeof header_) {
    KV_TRY(file_.read_at(0, std::as_writable_bytes(std::span(&header_, 1))));
  }
  if (header_.magic != container_magic) {
    return Error(ErrorKind::corrupt,
                 file_.path() + " is no codec file; `kvstrata codec encode` makes them");
  }
  if (header_checksum(header_) != header_.header_xxh3) return corrupt("the sum of its header");
  if (header_.version != container_version) {
    return Error(ErrorKind::unsupported, file_.path() + " is of version " +
                                             std::to_string(header_.version) +
                                             "; a newer kvstrata is needed");
  }
  if (const char* fault = find_fault(header_)) return corrupt(fault);
  if (header_.container_bytes != file_.bytes()) {
    return corrupt("it has " + std::to_string(file_.bytes()) + " of " +
                   std::to_string(header_.container_bytes) + " bytes");
  }
  return {};
}

Status Container::read_description() {
  ByteVector bytes(header_.description_bytes);
  KV_TRY(file_.read_at(sizeof header_, bytes));
  if (xxh3(bytes) != header_.description_xxh3) return corrupt("the sum of its description");
  std::uint64_t name_at = header_.parts * sizeof(PartRecord) + header_.sets * sizeof(SetRecord);
  std::uint64_t covered = 0;
  for (const PartRecord& record : records_at<PartRecord>(bytes, 0, header_.parts)) {
    auto part = Part::of(record, header_.file_bytes, header_.sets);
    if (!part) return corrupt(part.error().message());
    const std::uint64_t names = std::uint64_t{record.name_bytes} + record.name_v_bytes;
    if (names > bytes.size() - name_at) return corrupt("names beyond its description");
    part->name = as_text(ByteView(bytes).subspan(name_at, record.name_bytes));
    part->name_v =
        as_text(ByteView(bytes).subspan(name_at + record.name_bytes, record.name_v_bytes));
    name_at += names;
    if (part->bytes > header_.file_bytes - covered) return corrupt("parts that overlap");
    covered += part->bytes;
    parts_.push_back(*std::move(part));
  }
  if (covered != header_.file_bytes) return corrupt("parts that leave gaps");
  if (name_at != bytes.size()) return corrupt("a description that is too long");
  return read_tables(
      records_at<SetRecord>(bytes, header_.parts * sizeof(PartRecord), header_.sets));
}

Status Container::read_tables(const std::vector<SetRecord>& sets) {
  std::vector<const Part*> user(sets.size());
  for (const Part& part : parts_) {
    if (part.set != no_set && user[part.set] == nullptr) user[part.set] = &part;
  }
  std::uint64_t at = sizeof header_ + header_.description_bytes;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (user[i] == nullptr) return corrupt("tables that no part uses");
    if (sets[i].reserved != 0) return corrupt("reserved bits of its tables");
    if (sets[i].bytes > file_.bytes() - at ||
        sets[i].bytes > tables_bytes_max(dimensions_of(*user[i]))) {
      return corrupt("the length of its tables");
    }
    ByteVector bytes(sets[i].bytes);
    KV_TRY(file_.read_at(at, bytes));
    auto tables = codec::StaticTables::parse(bytes);
    if (!tables) return corrupt(tables.error().message());
    if ((*tables)->content_hash() != sets[i].content_hash) return corrupt("the sum of its tables");
    tables_.add(*std::move(tables));
    at += bytes.size();
    table_bytes_ += bytes.size();
  }
  for (const Part& part : parts_) {
    if (part.set != no_set && dimensions_of(*tables_.of(part.set)) != dimensions_of(part)) {
      return corrupt("tables of another shape");
    }
  }
  frames_at_ = at;
  return {};
}

Status Container::for_each_frame(const std::function<Status(const StoredFrame&)>& visit) const {
  std::uint64_t at = frames_at_;
  for (const Part& part : parts_) {
    const codec::StaticTables* const tables = tables_.of(part.set);
    for (std::uint64_t number = 0; number < part.frames(); ++number) {
      if (file_.bytes() - at < sizeof(codec::FrameHeader)) return corrupt("frames are missing");
      std::array<std::byte, sizeof(codec::FrameHeader)> header{};
      KV_TRY(file_.read_at(at, header));
      const auto info = codec::inspect_frame(header);
      if (!info) {
        return info.error().with_context(file_.path() + ", frame at byte " + std::to_string(at));
      }
      const codec::BlockShape shape = part.frame_shape(number);
      if (info->raw_bytes != shape.raw_bytes() || info->substreams != shape.substreams() ||
          info->frame_bytes > file_.bytes() - at) {
        return corrupt("a frame of another length than its part's");
      }
      const bool is_known = info->codec == codec::CodecId::raw ||
                            (info->codec == codec::CodecId::static_tables && tables != nullptr &&
                             info->parameters_hash == tables->content_hash());
      if (!is_known) return corrupt("a frame of a codec or with tables that its part lacks");
      KV_TRY(visit({part, number, at, *info}));
      at += info->frame_bytes;
    }
  }
  return at == file_.bytes() ? Status() : corrupt("something follows its last frame");
}

Status Container::decode(const StoredFrame& frame, MutableBytes payload) const {
  ByteVector bytes(frame.info.frame_bytes);
  KV_TRY(file_.read_at(frame.at, bytes));
  const Status decoded = codec::decode_frame(frame.part.frame_shape(frame.number),
                                             tables_.of(frame.part.set), bytes, payload);
  if (decoded) return {};
  return corrupt("frame at byte " + std::to_string(frame.at) + ": " + decoded.error().message());
}

Result<DecodeReport> decode_file(const std::string& path, const std::string& out,
                                 const ProgressCallback& progress) {
  KV_ASSIGN(const Container container, Container::open(path));
  KV_ASSIGN(OutputFile file, OutputFile::create(out, container.file().access()));
  const std::uint64_t file_bytes = container.header().file_bytes;
  DecodeReport report{container.file().bytes(), file_bytes, 0};
  ByteVector payload;
  std::uint64_t done = 0;
  const Status decoded = container.for_each_frame([&](const StoredFrame& frame) -> Status {
    payload.resize(frame.info.raw_bytes);
    KV_TRY(container.decode(frame, payload));
    ++report.frames;
    if (progress) progress("decoding", done += payload.size(), file_bytes);
    return frame.part.for_each_run(
        frame.number,
        [&](std::uint64_t file_at, std::uint64_t payload_at, std::uint64_t run_bytes) {
          return file.write_at(file_at, ByteView(payload).subspan(payload_at, run_bytes));
        });
  });
  if (!decoded) return decoded.error();
  KV_ASSIGN(const std::uint64_t sum, file.sum(file_bytes, [&](std::uint64_t summed) {
    if (progress) progress("checking", summed, file_bytes);
  }));
  if (sum != container.header().file_xxh3) {
    return Error(ErrorKind::corrupt,
                 path + " is damaged: what it decodes to has another sum than the file had");
  }
  KV_TRY(file.commit());
  return report;
}

}  // namespace kvstrata::tool
