#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/kvstrata/container/comparison.h"

namespace kvstrata::tool {

namespace {

using Json = nlohmann::json;

double ratio(double raw, double encoded) {
  return encoded == 0 ? 0 : raw / encoded;
}

Json row_of(const ComparisonRow& row) {
  Json json = {
      {"name", row.name},
      {"scalars", row.scalars},
      {"raw_bytes", row.raw_bytes},
      {"static_bytes", row.static_bytes},
      {"bits",
       {{"raw", row.raw_bits_a_scalar()},
        {"static", row.static_bits_a_scalar()},
        {"entropy", row.entropy_bits_a_scalar()}}},
      {"ratio", ratio(static_cast<double>(row.raw_bytes), static_cast<double>(row.static_bytes))}};
  if (!row.side.empty()) {
    json["layer"] = row.layer;
    json["side"] = row.side;
  }
  return json;
}

Json thousandths(const std::vector<float>& bits) {
  Json json = Json::array();
  for (const float value : bits) json.push_back(std::lround(value * 1000));
  return json;
}

Json map_of(const ChannelMap& map) {
  return {{"name", map.name},
          {"side", map.side},
          {"layers", map.layers},
          {"channels", map.channels},
          {"head_dim", map.head_dim},
          {"static", thousandths(map.static_bits)},
          {"entropy", thousandths(map.entropy_bits)}};
}

}  // namespace

std::string json_of(const std::vector<Comparison>& comparisons, bool channels) {
  Json files = Json::array();
  for (const Comparison& comparison : comparisons) {
    Json file = {{"path", comparison.path},
                 {"file_bytes", comparison.file_bytes},
                 {"raw_frame_bytes", comparison.raw_bytes},
                 {"static_frame_bytes", comparison.static_bytes},
                 {"table_bytes", comparison.table_bytes},
                 {"rows", Json::array()}};
    for (const ComparisonRow& row : comparison.rows) file["rows"].push_back(row_of(row));
    for (const ChannelMap& map : comparison.maps) {
      if (channels) file["maps"].push_back(map_of(map));
    }
    files.push_back(std::move(file));
  }
  return Json{{"files", std::move(files)}}.dump(channels ? -1 : 2, ' ', false,
                                                Json::error_handler_t::replace);
}

}  // namespace kvstrata::tool
