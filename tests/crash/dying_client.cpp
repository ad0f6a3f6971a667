#include "dying_client.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "content.h"
#include "daemon/protocol/header.h"
#include "daemon/protocol/new_blocks_body.h"
#include "reading.h"

namespace kvstrata::test {

namespace {

constexpr std::string_view role = "--die";
constexpr std::uint64_t value_bytes = 600'000;
constexpr int could_not = 3;
constexpr int attempts_max = 100'000;  // while others have all the staging memory

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

Status write_all(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EAGAIN && errno != EINTR) {
      return error_from_errno(errno, "send half a message");
    }
  }
  return {};
}

// Returns only if something fails.
Status die_after_reserve(TenantClient& client) {
  KV_ASSIGN(const Namespace ns, client.space(ItemKind::value, 0));
  auto reserved = client.client().reserve(ns, 2, value_bytes);
  for (int i = 0; !reserved && reserved.error().kind() == ErrorKind::busy; ++i) {
    if (i == attempts_max) break;
    reserved = client.client().reserve(ns, 2, value_bytes);
  }
  KV_ASSIGN(const Reservation reservation, std::move(reserved));
  const ByteVector content = content_named("unborn", value_bytes);
  std::memcpy(reservation.slots()[0].data(), content.data(), value_bytes);
  std::memcpy(reservation.slots()[1].data(), content.data(), value_bytes / 2);
  die();
}

Status die_in_a_message(TenantClient& client, std::uint64_t number) {
  KV_ASSIGN(const Namespace ns, client.space(ItemKind::value, 0));
  const std::string keys[] = {name_of_unborn(number)};
  const std::uint64_t lengths[] = {value_bytes};
  protocol::NewBlocksView blocks;
  blocks.ns = ns.id();
  blocks.by = protocol::SelectBy::key;
  blocks.keys = keys;
  blocks.lengths = lengths;
  protocol::Body body;
  ByteVector payload;
  KV_TRY(protocol::encode_new_blocks(blocks, body, payload));
  const ByteVector head = body.serialize();
  protocol::Header header;
  header.verb = protocol::Verb::put;
  header.request_id = 1'000'000;
  header.body_bytes = static_cast<std::uint32_t>(head.size());
  header.payload_bytes = payload.size() + value_bytes;
  const int fd = client.client().poll_fd();
  KV_TRY(write_all(fd, protocol::serialize(header)));
  KV_TRY(write_all(fd, head));
  KV_TRY(write_all(fd, payload));
  KV_TRY(write_all(fd, content_named("unborn", value_bytes / 2)));
  die();
}

Status begin_and_die(const std::string& address, std::uint32_t tenant, std::uint64_t number) {
  const auto way = static_cast<DeathWay>(number % death_ways);
  const bool shared_memory = way == DeathWay::between_reserve_and_commit;
  KV_ASSIGN(TenantClient client, TenantClient::connect(address, tenant, shared_memory));
  return shared_memory ? die_after_reserve(client) : die_in_a_message(client, number);
}

}  // namespace

std::string name_of_unborn(std::uint64_t number) {
  return "unborn/" + std::to_string(number);
}

Status let_a_client_die(const std::string& address, std::uint32_t tenant, std::uint64_t number) {
  std::string arguments[] = {"/proc/self/exe", std::string(role), address, std::to_string(tenant),
                             std::to_string(number)};
  char* raw[6] = {};
  for (std::size_t i = 0; i < std::size(arguments); ++i) raw[i] = arguments[i].data();
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, raw[0], nullptr, nullptr, raw, environ);
  if (failed != 0) return error_from_errno(failed, "start a client that dies");
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return error_from_errno(errno, "wait for a client");
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return {};
  return Error(ErrorKind::internal, "a client that should die by SIGKILL ended otherwise");
}

void play_dying_client(int argc, char** argv) {
  if (argc != 5 || argv[1] != role) return;
  const auto tenant = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  const Status failed = begin_and_die(argv[2], tenant, std::strtoull(argv[4], nullptr, 10));
  std::fprintf(stderr, "dying client: %s\n", failed.error().message().c_str());
  std::_Exit(could_not);
}

}  // namespace kvstrata::test
