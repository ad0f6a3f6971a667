#include "tools/kvstrata/container/encode.h"

#include <cstring>
#include <filesystem>
#include <span>

#include "kvstrata/checksum.h"
#include "tools/kvstrata/container/output_file.h"

namespace kvstrata::tool {

namespace {

template <typename Record>
void append(ByteVector& out, const Record& record) {
  const ByteView bytes = std::as_bytes(std::span(&record, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_text(ByteVector& out, std::string_view text) {
  const ByteView bytes = as_bytes(text);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

Result<ByteVector> description_of(const Dump& dump, const std::vector<ByteVector>& tables) {
  ByteVector description;
  for (const Part& part : dump.parts) append(description, part.record());
  for (const ByteVector& set : tables) {
    append(description, SetRecord{static_cast<std::uint32_t>(set.size()), 0, xxh3(set)});
  }
  for (const Part& part : dump.parts) {
    append_text(description, part.name);
    append_text(description, part.name_v);
  }
  if (description.size() <= description_bytes_max) return description;
  return Error(ErrorKind::too_large,
               dump.file.path() + " has names of more than 256 MiB in all; split it");
}

ContainerHeader header_of(const Dump& dump, std::size_t sets, ByteView description) {
  ContainerHeader header{};
  header.magic = container_magic;
  header.version = container_version;
  header.file_bytes = dump.file.bytes();
  header.parts = static_cast<std::uint32_t>(dump.parts.size());
  header.sets = static_cast<std::uint32_t>(sets);
  header.description_bytes = description.size();
  header.description_xxh3 = xxh3(description);
  return header;
}

/// Writes at the end of a file.
class Appender {
 public:
  Appender(OutputFile& file, std::uint64_t at) : file_(file), at_(at) {}
  Status add(ByteView bytes) {
    KV_TRY(file_.write_at(at_, bytes));
    at_ += bytes.size();
    return {};
  }
  std::uint64_t at() const { return at_; }

 private:
  OutputFile& file_;
  std::uint64_t at_;
};

Status write_frames(const Dump& dump, const TableSets& tables, Appender& out, EncodeReport& report,
                    const ProgressCallback& progress) {
  FrameEncoder encoder(dump, tables);
  std::uint64_t done = 0;
  for (const Part& part : dump.parts) {
    for (std::uint64_t number = 0; number < part.frames(); ++number) {
      KV_ASSIGN(const ByteView frame, encoder.encode(part, number));
      // Whoever has encoded a file may remove it: what was made of it is looked at once.
      KV_TRY(encoder.check(part, number, frame));
      KV_TRY(out.add(frame));
      KV_ASSIGN(const codec::FrameInfo info, codec::inspect_frame(frame));
      ++report.frames;
      report.static_frames += info.codec == codec::CodecId::static_tables ? 1 : 0;
      done += info.raw_bytes;
      if (progress) progress("encoding", done, dump.file.bytes());
    }
  }
  return {};
}

}  // namespace

Result<ByteView> FrameEncoder::encode(const Part& part, std::uint64_t frame) {
  const codec::BlockShape shape = part.frame_shape(frame);
  payload_.resize(shape.raw_bytes());
  KV_TRY(dump_.read(part, frame, payload_));
  const std::uint64_t room = codec::frame_bytes_max(shape);
  if (frame_.size() < room) frame_.resize(room);
  KV_ASSIGN(const std::uint64_t bytes,
            codec::encode_frame(shape, tables_.of(part.set), payload_, xxh3(payload_), frame_));
  return ByteView(frame_).first(bytes);
}

Status FrameEncoder::check(const Part& part, std::uint64_t frame, ByteView encoded) {
  check_.resize(payload_.size());
  KV_TRY(codec::decode_frame(part.frame_shape(frame), tables_.of(part.set), encoded, check_));
  if (check_ == payload_) return {};
  return Error(ErrorKind::internal, "a frame of " + dump_.file.path() +
                                        " does not decode to what it was made of; is the memory "
                                        "sound?");
}

Result<TableSets> tables_for(Dump& dump, const EncodeOptions& options,
                             const ProgressCallback& progress) {
  if (options.raw) return TableSets();
  if (!options.tables.empty()) return TableSets::load(options.tables, dump);
  if (progress) progress("fitting tables", 0, 0);
  return TableSets::fit(dump, options.fit_blocks);
}

Result<EncodeReport> encode_file(const std::string& path, const std::string& out,
                                 const EncodeOptions& options, const ProgressCallback& progress) {
  KV_ASSIGN(Dump dump, Dump::open(path, options.dump));
  std::error_code none_there;
  if (std::filesystem::equivalent(path, out, none_there)) {
    return Error(ErrorKind::invalid_argument, out + " is the file to encode; name another one");
  }
  KV_ASSIGN(OutputFile file, OutputFile::create(out, dump.file.access()));
  KV_ASSIGN(const TableSets tables, tables_for(dump, options, progress));
  std::vector<ByteVector> sets;
  for (const Tables& set : tables.all()) sets.push_back(set->serialize());
  KV_ASSIGN(const ByteVector description, description_of(dump, sets));
  ContainerHeader header = header_of(dump, sets.size(), description);

  EncodeReport report;
  report.file_bytes = dump.file.bytes();
  for (const Part& part : dump.parts) {
    report.untabled_parts += part.set == no_set && part.kind != PartKind::bytes ? 1 : 0;
  }
  Appender appender(file, sizeof header);
  KV_TRY(appender.add(description));
  for (const ByteVector& set : sets) {
    KV_TRY(appender.add(set));
    report.table_bytes += set.size();
  }
  KV_TRY(write_frames(dump, tables, appender, report, progress));
  KV_ASSIGN(header.file_xxh3, dump.file.sum([&](std::uint64_t done) {
    if (progress) progress("summing", done, dump.file.bytes());
  }));
  KV_TRY(dump.file.check_unchanged());
  header.container_bytes = report.container_bytes = appender.at();
  header.header_xxh3 = header_checksum(header);
  KV_TRY(file.write_at(0, std::as_bytes(std::span(&header, 1))));
  KV_TRY(file.commit());
  return report;
}

}  // namespace kvstrata::tool
