// The small parts of the server, each alone.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "../base/seed.h"
#include "daemon/server/disk_watch.h"
#include "daemon/server/inline_memory.h"
#include "daemon/server/log_folder.h"
#include "daemon/server/message_reader.h"
#include "daemon/server/out_queue.h"
#include "server_fixture.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

struct Pair {
  Pair() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    near = UniqueFd(ends[0]);
    far = UniqueFd(ends[1]);
  }
  UniqueFd near, far;
};

/// Runs posted work when told to.
class ManualExecutor final : public Executor {
 public:
  void post(std::function<void()> work) override { posted_.push_back(std::move(work)); }
  void run() {
    for (const auto& work : std::exchange(posted_, {})) work();
  }

 private:
  std::vector<std::function<void()>> posted_;
};

ByteVector random_bytes(kvstrata::test::Random& random, std::size_t count) {
  ByteVector bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return bytes;
}

}  // namespace

TEST_CASE("Messages are read whole however they are cut, their payloads stored or skipped") {
  kvstrata::test::Random random(kvstrata::test::test_seed("message reader"));
  Pair pair;
  MessageReader reader;
  ByteVector stream;
  std::vector<ByteVector> bodies, payloads;
  for (int i = 0; i < 60; ++i) {
    bodies.push_back(random_bytes(random, random.below(random.one_in(5) ? 100'000 : 100)));
    payloads.push_back(random_bytes(random, random.below(random.one_in(5) ? 3'000'000 : 1000)));
    Header header;
    header.request_id = static_cast<std::uint64_t>(i) + 1;
    header.body_bytes = static_cast<std::uint32_t>(bodies.back().size());
    header.payload_bytes = payloads.back().size();
    const protocol::HeaderBytes bytes = protocol::serialize(header);
    for (const ByteView part :
         {ByteView(bytes), ByteView(bodies.back()), ByteView(payloads.back())}) {
      stream.insert(stream.end(), part.begin(), part.end());
    }
  }
  std::size_t sent = 0;
  for (std::size_t i = 0; i < bodies.size();) {
    switch (reader.advance()) {
      case MessageReader::Step::bytes: {
        const std::size_t cut = std::min<std::size_t>(
            stream.size() - sent, 1 + random.below(random.one_in(3) ? 9 : 90'000));
        const ssize_t taken = ::send(pair.far.get(), stream.data() + sent, cut, 0);
        if (taken > 0) sent += static_cast<std::size_t>(taken);
        CHECK(reader.receive(pair.near.get()) != MessageReader::Receive::closed);
        break;
      }
      case MessageReader::Step::header:
        CHECK(reader.header().request_id == i + 1);
        reader.accept_header();
        break;
      case MessageReader::Step::body:
        REQUIRE(std::ranges::equal(reader.body(), bodies[i]));
        if (i % 3 == 2) {
          reader.skip_payload();
        } else {
          auto memory = std::make_shared<ByteVector>();
          memory->reserve(payloads[i].size());
          reader.store_payload(memory);
        }
        break;
      case MessageReader::Step::message: {
        const auto payload = reader.take_payload();
        CHECK((payload == nullptr) == (i % 3 == 2));
        if (payload) REQUIRE(*payload == payloads[i]);
        ++i;
        break;
      }
    }
  }
  CHECK_FALSE(reader.in_message());
}

TEST_CASE("What is queued arrives in order and whole through a socket that takes little") {
  kvstrata::test::Random random(kvstrata::test::test_seed("out queue"));
  Pair pair;
  const int small = 4096;
  setsockopt(pair.near.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  std::size_t sent_messages = 0;
  OutQueue queue([&](const OutMessage&) { ++sent_messages; });
  std::vector<ByteVector> pieces;
  for (int i = 0; i < 900; ++i) pieces.push_back(random_bytes(random, random.below(2000)));
  ByteVector expected;
  for (int i = 0; i < 100; ++i) {
    OutMessage message;
    message.head = random_bytes(random, 40);
    expected.insert(expected.end(), message.head.begin(), message.head.end());
    for (std::uint64_t j = random.one_in(10) ? 300 : random.below(3); j > 0; --j) {
      const ByteVector& piece = pieces[random.below(pieces.size())];
      message.payload.emplace_back(piece);
      expected.insert(expected.end(), piece.begin(), piece.end());
    }
    queue.push(std::move(message));
  }
  CHECK(queue.queued_bytes() == expected.size());
  ByteVector received;
  std::byte buffer[3000];
  while (received.size() < expected.size()) {
    CHECK(queue.flush(pair.near.get()) != OutQueue::Flush::failed);
    const ssize_t bytes = recv(pair.far.get(), buffer, 1 + random.below(sizeof buffer), 0);
    REQUIRE(bytes > 0);
    received.insert(received.end(), buffer, buffer + bytes);
  }
  CHECK(received == expected);
  CHECK(queue.flush(pair.near.get()) == OutQueue::Flush::empty);
  CHECK(sent_messages == 100);
  CHECK(queue.queued_bytes() == 0);
}

TEST_CASE("One flush sends a share, then lets others have a turn; a lost peer fails") {
  Pair pair;
  OutQueue queue([](const OutMessage&) {});
  OutMessage message;
  message.head.resize(64 << 20);
  queue.push(std::move(message));
  CHECK(queue.flush(pair.near.get()) == OutQueue::Flush::would_block);
  pair.far = UniqueFd();
  CHECK(queue.flush(pair.near.get()) == OutQueue::Flush::failed);
}

TEST_CASE("Payload memory is granted in order, and given back from any thread") {
  ManualExecutor control;
  const auto memory = InlineMemory::create(100, control);
  int woken = 0;
  const auto wake = [&] { ++woken; };
  const auto first = memory->claim(60, wake);
  const auto second = memory->claim(60, wake);
  const auto third = memory->claim(10, wake);  // would fit, but is not first in line
  CHECK(first->granted());
  CHECK_FALSE(second->granted());
  CHECK_FALSE(third->granted());
  CHECK(memory->waiting() == 2);

  auto buffer = memory->take(first);
  std::thread([moved = std::move(buffer)]() mutable { moved.reset(); }).join();
  control.run();
  CHECK(second->granted());
  CHECK(third->granted());
  CHECK(woken == 2);
  CHECK(memory->used_bytes() == 70);
  memory->cancel(second);
  memory->cancel(third);
  CHECK(memory->used_bytes() == 0);
}

TEST_CASE("Who leaves the line lets the next one in") {
  ManualExecutor control;
  const auto memory = InlineMemory::create(100, control);
  const auto first = memory->claim(60, [] {});
  const auto large = memory->claim(1000, [] {});
  const auto small = memory->claim(10, [] {});
  memory->cancel(large);
  control.run();
  CHECK(small->granted());
  CHECK(memory->used_bytes() == 70);
}

TEST_CASE("A large buffer is used again") {
  ManualExecutor control;
  const auto memory = InlineMemory::create(10 << 20, control);
  auto buffer = memory->take(memory->claim(1 << 20, [] {}));
  buffer->resize(1 << 20);
  const std::byte* address = buffer->data();
  buffer.reset();
  const auto again = memory->take(memory->claim(1 << 20, [] {}));
  CHECK(again->data() == address);
  CHECK(again->size() == 1 << 20);
}

TEST_CASE("A repeating message is printed once per period, then with its count") {
  LogFolder folder;
  const MonotonicTime start{};
  const auto at = [&](int seconds) { return start + Milliseconds(seconds * 1000); };
  CHECK(folder.offer("disk", "disk failed", at(0)) == "disk failed");
  for (int i = 0; i < 500; ++i) CHECK_FALSE(folder.offer("disk", "disk failed again", at(5)));
  CHECK(folder.offer("other", "something else", at(5)) == "something else");
  CHECK(folder.due(at(9)).empty());
  const auto due = folder.due(at(10));
  REQUIRE(due.size() == 1);
  CHECK(due[0].kind == "disk");
  CHECK(due[0].line == "disk failed again (500 of this kind in the last 10 s)");
  CHECK(folder.due(at(30)).empty());
  CHECK(folder.offer("disk", "disk failed", at(31)) == "disk failed");
}

TEST_CASE("Ten minutes of a failing tier are at most a line each ten seconds") {
  LogFolder folder;
  std::size_t lines = 0;
  MonotonicTime now{};
  for (int i = 0; i < 600 * 500; ++i, now += Milliseconds(2)) {
    if (folder.offer("tier", "write failed", now)) ++lines;
    if (i % 50 == 0) lines += folder.due(now).size();
  }
  CHECK(lines <= 61);
}

TEST_CASE("The log hears once that the disk tier stopped, once that it works again") {
  DiskWatch watch;
  storage::StoreTroubles troubles;
  MonotonicTime now{std::chrono::hours(1)};
  CHECK(watch.look(troubles, now).empty());
  troubles.degraded = "the file system is full";
  REQUIRE(watch.look(troubles, now).size() == 1);
  for (int i = 0; i < 100; ++i) CHECK(watch.look(troubles, now += Milliseconds(100)).empty());
  troubles.degraded.clear();
  const auto lines = watch.look(troubles, now);
  REQUIRE(lines.size() == 1);
  CHECK_FALSE(lines[0].is_warning);
  CHECK(lines[0].text.find("after 10 s") != std::string::npos);
  CHECK(watch.look(troubles, now).empty());
}

TEST_CASE("Damage of the disk tier is summed up, once in ten seconds") {
  DiskWatch watch;
  storage::StoreTroubles troubles;
  MonotonicTime now{std::chrono::hours(1)};
  troubles.corrupt_records = 2;
  const auto first = watch.look(troubles, now);
  REQUIRE(first.size() == 1);
  CHECK(first[0].text.find("2 records failed their checks") != std::string::npos);
  std::size_t lines = 0;
  for (int i = 0; i < 100; ++i) {
    ++troubles.corrupt_records;
    ++troubles.lost_segments;
    lines += watch.look(troubles, now += Milliseconds(100)).size();
  }
  CHECK(lines == 1);
  CHECK(watch.look(troubles, now + DiskWatch::damage_period).empty());
}
