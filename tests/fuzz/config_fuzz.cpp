// Any text is a configuration or an error, and a configuration survives being printed.
#include <cstddef>
#include <cstdint>

#include "daemon/config/config.h"
#include "kvstrata/check.h"

using namespace kvstrata;
using namespace kvstrata::daemon;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Config> config = parse_config(text, "fuzz");
  if (!config) {
    KV_CHECK(config.error().message().starts_with("fuzz"), "an error names its file");
    return 0;
  }
  const Result<Config> again = parse_config(to_toml(*config), "printed");
  KV_CHECK(again.ok(), again.ok() ? "" : again.error().message().c_str());
  KV_CHECK(*again == *config, "printing changed the configuration");
  return 0;
}
