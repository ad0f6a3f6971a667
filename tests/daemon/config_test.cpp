#include "daemon/config/config.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "daemon/config/environment.h"
#include "daemon/config/listen_address.h"
#include "daemon/config/sizes.h"

using namespace kvstrata;
using namespace kvstrata::daemon;

namespace {

std::string error_of(std::string_view text) {
  const auto config = parse_config(text, "c.toml");
  REQUIRE_FALSE(config.ok());
  return config.error().message();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Environment a_user() {
  Environment environment;
  environment.uid = 1000;
  environment.home = "/home/ada";
  environment.ram_bytes = 64_GiB;
  environment.file_system_bytes = [](const std::string&) { return 200_GiB; };
  return environment;
}

/// A directory that goes with the test.
struct TemporaryDirectory {
  TemporaryDirectory() {
    char name[] = "/tmp/kvstrata-config-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~TemporaryDirectory() { std::system(("rm -rf " + path).c_str()); }
  std::string write(const std::string& name, const std::string& text) const {
    std::system(("mkdir -p $(dirname " + path + "/" + name + ")").c_str());
    std::ofstream(path + "/" + name) << text;
    return path + "/" + name;
  }
  std::string path;
};

constexpr std::string_view everything = R"(
[server]
socket = "/run/kv.sock"
socket_mode = "0660"
listen = "0.0.0.0:7410"
public = true
connections_max = 7
inline_memory = "64MiB"
handshake_timeout_ms = 1000
stall_timeout_ms = 2000
drain_timeout_ms = 0
[store]
directory = "/data/kv"
disk = "3TiB"
device = "psync"
segment = "64MiB"
admission = "second-use"
[memory]
host = 1073741824
lock = true
huge_pages = false
prefault = "0B"
[codec]
at_rest = "raw"
[log]
level = "debug"
[[tenants]]
name = "team-a"
token = "0123456789abcdef"
admin = true
[[tenants]]
name = "team-b"
uids = [1000, 1001]
)";

}  // namespace

TEST_CASE("An empty file is a valid configuration and equals the defaults") {
  const auto config = parse_config("");
  REQUIRE(config.ok());
  CHECK(*config == Config{});
}

TEST_CASE("Every key reaches its field") {
  const auto config = parse_config(everything);
  REQUIRE_MESSAGE(config.ok(), config.error().message());
  CHECK(config->server.socket == "/run/kv.sock");
  CHECK(config->server.socket_mode == 0660);
  CHECK(config->server.listen == "0.0.0.0:7410");
  CHECK(config->server.is_public);
  CHECK(config->server.connections_max == 7);
  CHECK(config->server.inline_bytes_max == 64_MiB);
  CHECK(config->server.handshake_timeout_ms == 1000);
  CHECK(config->server.stall_timeout_ms == 2000);
  CHECK(config->server.drain_timeout_ms == 0);
  CHECK(config->store.directory == "/data/kv");
  CHECK(config->store.disk_bytes == 3072_GiB);
  CHECK(config->store.device == StoreDevice::psync);
  CHECK(config->store.segment_bytes == 64_MiB);
  CHECK(config->store.admission == StoreAdmission::second_use);
  CHECK(config->memory.host_bytes == 1_GiB);
  CHECK(config->memory.lock);
  CHECK_FALSE(config->memory.huge_pages);
  CHECK(config->memory.prefault_bytes == 0);
  CHECK(config->codec.at_rest == "raw");
  CHECK(config->log.level == LogLevel::debug);
  REQUIRE(config->tenants.size() == 2);
  CHECK(config->tenants[0].token_sha256 == sha256(as_bytes("0123456789abcdef")));
  CHECK(config->tenants[0].admin);
  CHECK(config->tenants[1].uids == std::vector<std::uint32_t>{1000, 1001});
}

TEST_CASE("Each codec for blocks at rest is known by its name") {
  for (const std::string name : {"static", "linear", "raw"}) {
    const auto config = parse_config("[codec]\nat_rest = \"" + name + "\"\n");
    REQUIRE(config.ok());
    CHECK(config->codec.at_rest == name);
  }
}

TEST_CASE("A printed configuration reads back as the same, without its tokens in clear") {
  const Config config = *parse_config(everything);
  const std::string text = to_toml(config);
  CHECK_FALSE(contains(text, "0123456789abcdef"));
  const auto again = parse_config(text);
  REQUIRE_MESSAGE(again.ok(), again.error().message());
  CHECK(*again == config);
}

TEST_CASE("An unknown key is an error that names line, key and the nearest known one") {
  CHECK(error_of("[store]\n\ndirectry = \"/x\"\n") ==
        "c.toml:3: unknown key store.directry; did you mean store.directory?");
  CHECK(error_of("[memroy]\n") == "c.toml:1: unknown key memroy; did you mean memory?");
  CHECK(error_of("[store]\nxyzzy_frobnicate = 1\n") ==
        "c.toml:2: unknown key store.xyzzy_frobnicate");
}

TEST_CASE("Sizes and ranges are bounded, and the error says the bounds") {
  CHECK(error_of("[store]\ndisk = \"1MiB\"\n") ==
        "c.toml:2: store.disk: must be from 64MiB to 1024TiB");
  CHECK(contains(error_of("[memory]\nhost = \"50 elephants\"\n"), "is not a size"));
  CHECK(contains(error_of("[memory]\nhost = -1\n"), "write a size"));
  CHECK(contains(error_of("[server]\nconnections_max = 0\n"), "from 1 to 65536"));
  CHECK(contains(error_of("[server]\nconnections_max = 70000\n"), "from 1 to 65536"));
  CHECK(contains(error_of("[store]\nsegment = 4194305\n"), "multiple of 4096"));
}

TEST_CASE("A value of the wrong type or outside its set is named with what is accepted") {
  CHECK(contains(error_of("[memory]\nlock = \"yes\"\n"), "memory.lock: write true or false"));
  CHECK(contains(error_of("[store]\ndevice = \"floppy\"\n"), "\"auto\", \"io_uring\", \"psync\""));
  CHECK(contains(error_of("[store]\nadmission = \"third-use\"\n"),
                 "store.admission: \"third-use\" is not one of \"all\", \"second-use\""));
  CHECK(contains(error_of("[codec]\nat_rest = \"zip\"\n"),
                 "codec.at_rest: write \"static\", \"linear\" or \"raw\""));
  CHECK(contains(error_of("[log]\nlevel = \"loud\"\n"), "\"debug\""));
  CHECK(contains(error_of("[server]\nsocket_mode = \"0777\"\n"), "0660"));
  CHECK(contains(error_of("store = 1\n"), "write a table"));
  CHECK(contains(error_of("[server]\nsocket = \"a\\u0000b\"\n"), "zero byte"));
}

TEST_CASE("Text that is not TOML is refused with its line") {
  CHECK(error_of("[store]\ndisk = = 1\n").starts_with("c.toml:2: "));
  CHECK(parse_config(std::string(config_bytes_max + 1, ' ')).error().kind() ==
        ErrorKind::too_large);
  CHECK_FALSE(parse_config(std::string(100'000, '[')).ok());
  CHECK_FALSE(parse_config("[[[a]]]\n").ok());
  CHECK_FALSE(parse_config("\u00e9 = 1\n").ok());
  CHECK_FALSE(parse_config("\ufb2c").ok());
}

TEST_CASE("Listening beyond loopback needs `public` and a token") {
  CHECK(error_of("[server]\nlisten = \"0.0.0.0:7410\"\n") ==
        "c.toml:2: server.listen: listening on 0.0.0.0:7410 would open the cache to other "
        "machines; set server.public = true to mean it");
  CHECK(contains(error_of("[server]\nlisten = \"[::]:1\"\npublic = true\n"), "token_sha256"));
  CHECK(contains(error_of("[server]\nlisten = \"10.0.0.1:1\"\npublic = true\n"
                          "[[tenants]]\nname = \"a\"\nuids = [1]\n"),
                 "at least one [[tenants]]"));
  CHECK(parse_config("[server]\nlisten = \"127.0.0.1:7410\"\n").ok());
}

TEST_CASE("An argument can't open what the file could not") {
  Config config;
  config.server.listen = "0.0.0.0:7410";
  const auto resolved = resolve(config, a_user());
  REQUIRE_FALSE(resolved.ok());
  CHECK(resolved.error().kind() == ErrorKind::permission_denied);
}

TEST_CASE("Tenants are told apart by name, token and user id") {
  const std::string a = "[[tenants]]\nname = \"a\"\ntoken = \"0123456789abcdef\"\nuids = [5]\n";
  CHECK(contains(error_of(a + a), "is there twice"));
  CHECK(contains(error_of(a + "[[tenants]]\nname = \"b\"\ntoken = \"0123456789abcdef\"\n"),
                 "have the same token"));
  CHECK(contains(error_of(a + "[[tenants]]\nname = \"b\"\nuids = [5]\n"), "belongs to \"a\""));
  CHECK(contains(error_of("[[tenants]]\nname = \"a\"\n"), "could never connect"));
  CHECK(contains(error_of("[[tenants]]\nuids = [5]\n"), "without a name"));
  CHECK(contains(error_of("[[tenants]]\nname = \"a b\"\nuids = [5]\n"), "1 to 64 letters"));
  CHECK(contains(error_of("[[tenants]]\nname = \"a\"\ntoken = \"short\"\n"), "openssl rand"));
  CHECK(contains(error_of("[[tenants]]\nname = \"a\"\ntoken_sha256 = \"abc\"\n"), "token_sha256"));
  CHECK(contains(error_of("tenants = [1]\n"), "[[tenants]]"));
  CHECK(parse_config("tenants = []\n").ok());
}

TEST_CASE("No configuration at all resolves to working defaults") {
  const auto config = resolve(Config{}, a_user());
  REQUIRE_MESSAGE(config.ok(), config.error().message());
  CHECK(config->store.directory == "/home/ada/.local/share/kvstrata");
  CHECK(config->server.socket == "/home/ada/.local/share/kvstrata/kvstrata.sock");
  CHECK(config->server.listen.empty());
  CHECK(config->store.disk_bytes == 20_GiB);
  CHECK(config->memory.host_bytes == 16_GiB);
  CHECK(config->memory.prefault_bytes == 1_GiB);
}

TEST_CASE("Defaults follow the user's directories, the file system and the cgroup") {
  Environment environment = a_user();
  environment.runtime_directory = "/run/user/1000";
  environment.data_home = "/home/ada/data";
  environment.cgroup_bytes = 8_GiB;
  environment.file_system_bytes = [](const std::string&) { return 4096_GiB; };
  Config config = *resolve(Config{}, environment);
  CHECK(config.store.directory == "/home/ada/data/kvstrata");
  CHECK(config.server.socket == "/run/user/1000/kvstrata.sock");
  CHECK(config.store.disk_bytes == 50_GiB);
  CHECK(config.memory.host_bytes == 2_GiB);

  environment.uid = 0;
  environment.file_system_bytes = [](const std::string&) { return 100_MiB; };
  config = *resolve(Config{}, environment);
  CHECK(config.store.directory == "/var/lib/kvstrata");
  CHECK(config.store.disk_bytes == disk_bytes_min);
}

TEST_CASE("Without a home the error says what to set") {
  Environment environment = a_user();
  environment.home.clear();
  const auto config = resolve(Config{}, environment);
  REQUIRE_FALSE(config.ok());
  CHECK(contains(config.error().message(), "--data DIR"));
}

TEST_CASE("More host memory than the machine has is refused, with both numbers") {
  Config config;
  config.memory.host_bytes = 65_GiB;
  const auto resolved = resolve(config, a_user());
  REQUIRE_FALSE(resolved.ok());
  CHECK(contains(resolved.error().message(), "65GiB"));
  CHECK(contains(resolved.error().message(), "65536MiB"));
}

TEST_CASE("A socket path the system can't hold is refused") {
  Config config;
  config.store.directory = "/" + std::string(200, 'd');
  CHECK_FALSE(resolve(config, a_user()).ok());
}

TEST_CASE("Sizes read and print in powers of 1024") {
  CHECK(*parse_size("50GiB") == 50_GiB);
  CHECK(*parse_size("12 KiB") == 12_KiB);
  CHECK(*parse_size("4096") == 4096);
  CHECK(*parse_size("0B") == 0);
  for (const char* bad :
       {"", "GiB", "-1", "1.5GiB", "50GB", "50G", "1 2", "99999999999999999999", "2000000TiB"}) {
    CHECK_MESSAGE(!parse_size(bad).ok(), bad);
  }
  for (const std::uint64_t bytes :
       std::initializer_list<std::uint64_t>{0, 1, 1023, 1024, 1025, 3_MiB, 5_GiB, 7 * 1024_GiB}) {
    CHECK(*parse_size(format_size(bytes)) == bytes);
  }
}

TEST_CASE("Addresses are numeric and carry whether they are loopback") {
  CHECK(*parse_listen_address("127.0.0.1:7410") == ListenAddress{"127.0.0.1", 7410, true});
  CHECK(*parse_listen_address("127.9.9.9") == ListenAddress{"127.9.9.9", 7410, true});
  CHECK(*parse_listen_address("localhost:1") == ListenAddress{"127.0.0.1", 1, true});
  CHECK(*parse_listen_address("[::1]:0") == ListenAddress{"::1", 0, true});
  CHECK(*parse_listen_address("[::]") == ListenAddress{"::", 7410, false});
  CHECK(*parse_listen_address("10.0.0.1:65535") == ListenAddress{"10.0.0.1", 65535, false});
  for (const char* bad : {"", ":1", "example.com:1", "127.0.0.1:", "127.0.0.1:65536", "[::1", "::1",
                          "[::1]x", "[127.0.0.1]:1", "127.0.0.1:-1"}) {
    CHECK_MESSAGE(!parse_listen_address(bad).ok(), bad);
  }
}

TEST_CASE("The tightest cgroup limit on the way up counts") {
  const TemporaryDirectory tmp;
  const std::string v2 = tmp.write("proc2", "0::/a/b\n");
  tmp.write("cg/a/b/memory.max", "max\n");
  tmp.write("cg/a/memory.max", "1048576\n");
  tmp.write("cg/memory.max", "2097152\n");
  CHECK(cgroup_memory_limit_bytes(v2, tmp.path + "/cg") == 1048576);

  const std::string v1 = tmp.write("proc1", "5:cpu:/x\n4:cpuset,memory:/c\n");
  tmp.write("cg1/memory/c/memory.limit_in_bytes", "4096000\n");
  tmp.write("cg1/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(cgroup_memory_limit_bytes(v1, tmp.path + "/cg1") == 4096000);
  CHECK(cgroup_memory_limit_bytes(tmp.path + "/none", tmp.path + "/cg") == 0);
}

TEST_CASE("A file with tokens that others can read is warned about") {
  const TemporaryDirectory tmp;
  const std::string file =
      tmp.write("c.toml", "[[tenants]]\nname = \"a\"\ntoken = \"0123456789abcdef\"\n");
  REQUIRE(chmod(file.c_str(), 0644) == 0);
  CHECK(load_config(file)->warnings.size() == 1);
  REQUIRE(chmod(file.c_str(), 0600) == 0);
  CHECK(load_config(file)->warnings.empty());
}

TEST_CASE("A file that is missing, a directory or broken is refused by name") {
  const TemporaryDirectory tmp;
  CHECK(load_config(tmp.path + "/none").error().kind() == ErrorKind::not_found);
  CHECK(contains(load_config(tmp.path).error().message(), tmp.path));
  const std::string file = tmp.write("c.toml", "\n[stor]\n");
  CHECK(contains(load_config(file).error().message(), file + ":2: unknown key stor"));
}
