// Arguments: over the file, over the defaults, and never past the limits of either.
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "daemon/server/command_line.h"
#include "daemon/server/exit_code.h"
#include "kvstrata/bytes.h"

using namespace kvstrata;
using namespace kvstrata::daemon;

namespace {

std::variant<CommandLine, int> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "kvstratad");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse_command_line(static_cast<int>(pointers.size()), pointers.data());
}

Environment a_user() {
  Environment environment;
  environment.uid = 1000;
  environment.home = "/home/ada";
  environment.ram_bytes = 64_GiB;
  return environment;
}

Result<Config> configure(std::vector<std::string> words) {
  return make_config(std::get<CommandLine>(parse(std::move(words))), a_user());
}

struct TemporaryFile {
  explicit TemporaryFile(const std::string& text) {
    char name[] = "/tmp/kvstrata-arguments-XXXXXX";
    ::close(mkstemp(name));
    path = name;
    std::ofstream(path) << text;
  }
  ~TemporaryFile() { unlink(path.c_str()); }
  std::string path;
};

}  // namespace

TEST_CASE("Without arguments the defaults hold") {
  const auto config = configure({});
  REQUIRE(config.ok());
  CHECK(config->server.listen.empty());
  CHECK(config->memory.host_bytes == 16_GiB);
}

TEST_CASE("Arguments go over the file, the file over the defaults") {
  const TemporaryFile file(
      "[store]\ndirectory = \"/file\"\ndisk = \"1GiB\"\n[memory]\nhost = \"2GiB\"\n");
  const auto config =
      configure({"--config", file.path, "--data", "/argument", "--disk", "3GiB", "--socket", "/s",
                 "--listen", "127.0.0.1:0", "--log-level", "error", "--admission", "second-use"});
  REQUIRE(config.ok());
  CHECK(config->store.directory == "/argument");
  CHECK(config->store.disk_bytes == 3_GiB);
  CHECK(config->memory.host_bytes == 2_GiB);
  CHECK(config->server.socket == "/s");
  CHECK(config->server.listen == "127.0.0.1:0");
  CHECK(config->log.level == LogLevel::error);
  CHECK(config->store.admission == StoreAdmission::second_use);
}

TEST_CASE("A wrong argument is named with what is accepted") {
  for (const auto& [words, part] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--host-memory", "lots"}, "--host-memory: \"lots\" is not a size"},
           {{"--host-memory", "1KiB"}, "--host-memory: must be at least 16MiB"},
           {{"--disk", "1MiB"}, "--disk: must be at least 64MiB"},
           {{"--listen", "example.com:1"}, "--listen: "},
           {{"--listen", "0.0.0.0:1"}, "server.public = true"},
           {{"--log-level", "loud"}, "--log-level: "},
           {{"--admission", "none"}, "--admission: \"none\" is not one of \"all\""},
           {{"--config", "/no/such/file"}, "/no/such/file"}}) {
    CAPTURE(part);
    const auto config = configure(words);
    REQUIRE_FALSE(config.ok());
    CHECK(config.error().message().find(part) != std::string::npos);
  }
}

TEST_CASE("Help and version are no errors; what is not known is") {
  CHECK(std::get<int>(parse({"--help"})) == exit_code::success);
  CHECK(std::get<int>(parse({"--version"})) == exit_code::success);
  CHECK(std::get<int>(parse({"--bogus"})) == exit_code::usage);
  CHECK(std::get<int>(parse({"stray"})) == exit_code::usage);
  CHECK(std::get<int>(parse({"--ready-fd", "x"})) == exit_code::usage);
  CHECK(std::get<CommandLine>(parse({"--print-config"})).print_config);
}
