#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/kvstrata/codec_files.h"
#include "tools/kvstrata/container/container.h"
#include "tools/kvstrata/exit_code.h"

namespace kvstrata::cli {

namespace {

using Json = nlohmann::json;
using tool::Part;
using tool::PartKind;

/// A part and what its frames take.
struct PartFrames {
  const Part* part = nullptr;
  std::vector<codec::FrameInfo> frames;
  std::uint64_t encoded_bytes = 0;

  std::uint64_t static_frames() const {
    std::uint64_t count = 0;
    for (const codec::FrameInfo& info : frames) {
      count += info.codec == codec::CodecId::static_tables ? 1 : 0;
    }
    return count;
  }
};

Result<std::vector<PartFrames>> frames_of(const tool::Container& container) {
  std::vector<PartFrames> parts;
  for (const Part& part : container.parts()) parts.push_back({&part, {}, 0});
  KV_TRY(container.for_each_frame([&](const tool::StoredFrame& frame) -> Status {
    PartFrames& part = parts[static_cast<std::size_t>(&frame.part - container.parts().data())];
    part.frames.push_back(frame.info);
    part.encoded_bytes += frame.info.frame_bytes;
    return {};
  }));
  return parts;
}

const char* name_of(PartKind kind) {
  switch (kind) {
    case PartKind::bytes: return "bytes";
    case PartKind::values: return "values";
    case PartKind::blocks: return "blocks";
    case PartKind::apart: return "apart";
  }
  return "unknown";
}

std::string label_of(const Part& part) {
  if (part.name.empty()) return part.kind == PartKind::bytes ? "(header, gaps)" : "(all)";
  return printable(part.name_v.empty() ? part.name : part.name + ", " + part.name_v);
}

std::string shape_of(const Part& part) {
  if (!part.is_kv()) return "";
  std::string text = std::to_string(part.layers) + " layers, ";
  if (part.head_dim_v == 0) text += "one side, ";
  return text + part.heads_text() + ", " + human_count(part.tokens) + " tokens";
}

std::string codec_of(const PartFrames& part) {
  const std::uint64_t all = part.frames.size(), coded = part.static_frames();
  if (coded == 0) return "raw";
  if (coded == all) return "static";
  return std::to_string(coded) + " static, " + std::to_string(all - coded) + " raw";
}

Json json_of(const PartFrames& it) {
  const Part& part = *it.part;
  Json json = {{"name", part.name},
               {"kind", name_of(part.kind)},
               {"dtype", to_string(part.dtype)},
               {"bytes", part.bytes},
               {"encoded_bytes", it.encoded_bytes},
               {"ratio", static_cast<double>(part.bytes) / static_cast<double>(it.encoded_bytes)},
               {"frames", Json::array()}};
  if (!part.name_v.empty()) json["name_v"] = part.name_v;
  if (part.set != tool::no_set) json["tables"] = part.set;
  if (part.is_kv()) {
    json["layers"] = part.layers;
    json["kv_heads"] = part.kv_heads;
    json["head_dim_k"] = part.head_dim_k;
    json["head_dim_v"] = part.head_dim_v;
    json["tokens"] = part.tokens;
    json["frame_tokens"] = part.frame_tokens;
  }
  for (const codec::FrameInfo& info : it.frames) {
    json["frames"].push_back({{"codec", codec::to_string(info.codec)},
                              {"substreams", info.substreams},
                              {"raw_bytes", info.raw_bytes},
                              {"bytes", info.frame_bytes}});
  }
  return json;
}

void print_json(const tool::Container& container, const std::vector<PartFrames>& parts) {
  Json json = {{"container_bytes", container.header().container_bytes},
               {"file_bytes", container.header().file_bytes},
               {"ratio", static_cast<double>(container.header().file_bytes) /
                             static_cast<double>(container.header().container_bytes)},
               {"tables", Json::array()},
               {"parts", Json::array()}};
  for (const tool::Tables& tables : container.tables().all()) {
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx",
                  static_cast<unsigned long long>(tables->content_hash()));
    json["tables"].push_back({{"bytes", tables->serialize().size()}, {"hash", hash}});
  }
  for (const PartFrames& part : parts) json["parts"].push_back(json_of(part));
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void print_table(const tool::Container& container, const std::vector<PartFrames>& parts) {
  Table table({"tensor", "dtype", "shape", "codec", ">frames", ">bytes", ">encoded", ">ratio"});
  for (const PartFrames& it : parts) {
    const Part& part = *it.part;
    table.add({label_of(part),
               part.kind == PartKind::bytes ? "" : std::string(to_string(part.dtype)),
               shape_of(part), codec_of(it), human_count(it.frames.size()), human_bytes(part.bytes),
               human_bytes(it.encoded_bytes), ratio_text(part.bytes, it.encoded_bytes)});
  }
  table.print();
  std::printf("%s in %s, ratio %s; %zu sets of tables, %s\n",
              human_bytes(container.header().file_bytes).c_str(),
              human_bytes(container.header().container_bytes).c_str(),
              ratio_text(container.header().file_bytes, container.header().container_bytes).c_str(),
              container.tables().size(), human_bytes(container.table_bytes()).c_str());
}

}  // namespace

int run_codec_inspect(const CodecOptions& options) {
  const auto container = tool::Container::open(options.in);
  if (!container) return report(container.error());
  const auto parts = frames_of(*container);
  if (!parts) return report(parts.error());
  if (options.json) {
    print_json(*container, *parts);
  } else {
    print_table(*container, *parts);
  }
  return exit_ok;
}

}  // namespace kvstrata::cli
