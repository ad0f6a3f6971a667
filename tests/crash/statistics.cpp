#include "statistics.h"

#include <cstdlib>
#include <string>

namespace kvstrata::test {

std::uint64_t number_in(std::string_view text, std::string_view name) {
  const std::string key = "\"" + std::string(name) + "\":";
  const std::size_t at = text.find(key);
  KV_CHECK(at != std::string_view::npos, "the statistics have every number a test asks for");
  const std::string value(text.substr(at + key.size(), 24));
  return value.starts_with("true") ? 1 : std::strtoull(value.c_str(), nullptr, 10);
}

Result<Activity> activity_of(Client& client) {
  KV_ASSIGN(const std::string text, client.stats());
  Activity activity;
  activity.encoding = number_in(text, "encoding_blocks") > 0;
  activity.reclaiming = number_in(text, "reclaiming") > 0;
  activity.put_bytes = number_in(text, "put_bytes");
  activity.corrupt = number_in(text, "corrupt_blocks") + number_in(text, "corrupt_records");
  return activity;
}

}  // namespace kvstrata::test
