// How the public part of a Device matches completions to requests, against a back end that
// reports exactly what the test says.
#include <doctest/doctest.h>

#include <cerrno>

#include "storage/device/request_table.h"
#include "tests/storage/device/support.h"

namespace kvstrata::storage {

namespace {

using namespace testing;

/// A ScriptedDevice remembers the attempts it is given and completes what the test tells it to.
class ScriptedDevice final : public Device {
 public:
  struct Attempt {
    IoRequest request;
    std::uint64_t user_data = 0;
  };

  std::size_t queue_depth() const override { return 8; }
  std::string name() const override { return "scripted"; }
  Result<std::unique_ptr<Device>> clone() const override {
    return Error(ErrorKind::unsupported, "a script is one device's");
  }

  void complete_user_data(std::uint64_t user_data, std::int64_t result) {
    to_report_.push_back({.user_data = user_data, .result = result});
  }
  void complete(std::size_t attempt, std::int64_t result) {
    complete_user_data(attempts.at(attempt).user_data, result);
  }

  std::vector<Attempt> attempts;
  std::size_t flushes = 0;

 protected:
  Result<FileHandle> open_impl(const std::string&, bool) override { return FileHandle{3}; }
  void close_impl(FileHandle) override {}
  Status allocate_impl(FileHandle, std::uint64_t) override { return {}; }
  Result<std::uint64_t> size_impl(FileHandle) override { return std::uint64_t{0}; }
  Status remove_impl(const std::string&) override { return {}; }
  Status sync_directory_impl() override { return {}; }
  Result<std::vector<std::string>> list_impl() override { return std::vector<std::string>(); }
  Status register_buffer_impl(std::byte*, std::uint64_t) override { return {}; }
  void unregister_buffer_impl(std::byte*) override {}
  Status submit_impl(const IoRequest& request, std::uint64_t user_data) override {
    attempts.push_back({request, user_data});
    return {};
  }
  void flush_submissions_impl() override { ++flushes; }
  Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t,
                                Milliseconds) override {
    const std::size_t count = to_report_.size();
    ended.insert(ended.end(), to_report_.begin(), to_report_.end());
    to_report_.clear();
    return count;
  }

 private:
  std::vector<RawCompletion> to_report_;
};

/// A device with one open file and a buffer.
struct Bench {
  ScriptedDevice device;
  FileHandle file = device.open("segment", true).value();
  AlignedBuffer buffer{16_KiB};

  void submit_read(std::uint64_t tag = 1) {
    const IoRequest request = read_request(file, 32_KiB, buffer, tag);
    device.submit({&request, 1}).value();
  }
  void submit(IoOperation operation) {
    IoRequest request = read_request(file, 32_KiB, buffer, 1);
    request.operation = operation;
    device.submit({&request, 1}).value();
  }
  std::vector<IoCompletion> poll() {
    std::vector<IoCompletion> ended;
    device.wait(ended, 0, Milliseconds(0)).value();
    return ended;
  }
};

TEST_CASE("A short read is continued from the last whole unit until the request is full") {
  Bench bench;
  bench.submit_read();
  bench.device.complete(0, 4096 + 700);
  CHECK(bench.poll().empty());
  REQUIRE(bench.device.attempts.size() == 2);
  const IoRequest& rest = bench.device.attempts[1].request;
  CHECK(rest.offset == 32_KiB + 4096);
  CHECK(rest.buffer == bench.buffer.data() + 4096);
  CHECK(rest.bytes == 12_KiB);
  bench.device.complete(1, 12_KiB);
  const auto ended = bench.poll();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status.ok());
  CHECK(bench.device.stats().short_transfers == 1);
  CHECK(bench.device.stats().read_bytes == 16_KiB);
}

TEST_CASE("A read that returns nothing before its end is an error, never full") {
  Bench bench;
  bench.submit_read();
  bench.device.complete(0, 8192);
  CHECK(bench.poll().empty());
  bench.device.complete(1, 0);
  const auto ended = bench.poll();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status.error().kind() == ErrorKind::io);
  CHECK(bench.device.stats().errors == 1);
  CHECK(bench.device.stats().read_bytes == 0);
}

TEST_CASE("A transfer that stays short of the next unit ends as an error") {
  for (const IoOperation operation : {IoOperation::read, IoOperation::write}) {
    Bench bench;
    bench.submit(operation);
    std::vector<IoCompletion> ended;
    std::size_t attempts = 0;
    while (ended.empty() && attempts < 100) {
      bench.device.complete(attempts++, operation == IoOperation::read ? 904 : 0);
      ended = bench.poll();
    }
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].status.error().kind() == ErrorKind::io);
    CHECK(attempts == 16);
  }
}

TEST_CASE("A count beyond what was asked for is an error") {
  Bench bench;
  bench.submit_read();
  bench.device.complete(0, 16_KiB + 1);
  const auto ended = bench.poll();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status.error().kind() == ErrorKind::io);
}

TEST_CASE("EAGAIN and EINTR are retried, but not for ever") {
  for (const int error_number : {EAGAIN, EINTR}) {
    Bench bench;
    bench.submit_read();
    bench.device.complete(0, -error_number);
    CHECK(bench.poll().empty());
    bench.device.complete(1, 16_KiB);
    CHECK(bench.poll().at(0).status.ok());
    CHECK(bench.device.stats().retries == 1);

    bench.submit_read();
    std::vector<IoCompletion> ended;
    while (ended.empty() && bench.device.attempts.size() < 100) {
      bench.device.complete(bench.device.attempts.size() - 1, -error_number);
      ended = bench.poll();
    }
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].status.error().kind() == ErrorKind::io);
    CHECK(bench.device.stats().retries == 1 + 16);
  }
}

TEST_CASE("data_sync errors are reported once and not retried, not even EINTR") {
  for (const int error_number : {EIO, EINTR, EAGAIN, ENOSPC}) {
    Bench bench;
    bench.submit(IoOperation::data_sync);
    bench.device.complete(0, -error_number);
    const auto ended = bench.poll();
    REQUIRE(ended.size() == 1);
    CHECK_FALSE(ended[0].status.ok());
    CHECK(bench.device.attempts.size() == 1);
    CHECK(bench.device.stats().retries == 0);
    CHECK(bench.device.stats().errors == 1);
    CHECK(bench.poll().empty());
  }
}

TEST_CASE("An errno becomes the error kind a caller can act on") {
  const std::pair<int, ErrorKind> kinds[] = {{ENOSPC, ErrorKind::out_of_space},
                                             {EDQUOT, ErrorKind::out_of_space},
                                             {EIO, ErrorKind::io},
                                             {EACCES, ErrorKind::permission_denied},
                                             {ENOMEM, ErrorKind::out_of_memory}};
  for (const auto& [error_number, kind] : kinds) {
    Bench bench;
    bench.submit(IoOperation::write);
    bench.device.complete(0, -error_number);
    const auto ended = bench.poll();
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].status.error().kind() == kind);
    CHECK(ended[0].status.error().message().find("segment") != std::string::npos);
  }
}

TEST_CASE("A completion that comes twice is ignored and counted") {
  Bench bench;
  bench.submit_read();
  bench.device.complete(0, 16_KiB);
  bench.device.complete(0, 16_KiB);
  CHECK(bench.poll().size() == 1);
  CHECK(bench.device.stats().stale_completions == 1);
  CHECK(bench.device.stats().reads == 1);
}

TEST_CASE("A completion of an earlier generation is ignored") {
  Bench bench;
  bench.submit_read(1);
  bench.device.complete(0, 16_KiB);
  CHECK(bench.poll().at(0).tag == 1);
  bench.submit_read(2);  // in the slot of the first
  bench.device.complete(0, 16_KiB);
  CHECK(bench.poll().empty());
  CHECK(bench.device.in_flight() == 1);
  CHECK(bench.device.stats().stale_completions == 1);
  bench.device.complete(1, 16_KiB);
  CHECK(bench.poll().at(0).tag == 2);
}

TEST_CASE("A late completion of an earlier attempt does not end the next attempt") {
  Bench bench;
  bench.submit_read();
  bench.device.complete(0, 4096);
  bench.device.complete(0, 12_KiB);  // the attempt's second report, full for the rest
  CHECK(bench.poll().empty());
  CHECK(bench.device.stats().stale_completions == 1);
  bench.device.complete(1, 12_KiB);
  CHECK(bench.poll().at(0).status.ok());
}

TEST_CASE("A completion from nowhere is ignored and counted") {
  Bench bench;
  bench.submit_read();
  for (const std::uint64_t user_data : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{0xFFFF},
                                        ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    bench.device.complete_user_data(user_data, 16_KiB);
  }
  CHECK(bench.poll().empty());
  CHECK(bench.device.stats().stale_completions == 5);
  CHECK(bench.device.in_flight() == 1);
}

TEST_CASE("A batch is handed to the back end as one") {
  Bench bench;
  const std::vector<IoRequest> batch(8, read_request(bench.file, 0, bench.buffer));
  CHECK(bench.device.submit(batch).ok());
  CHECK(bench.device.attempts.size() == 8);
  CHECK(bench.device.flushes == 1);
  CHECK(bench.device.attempts[0].request.file == FileHandle{3});
}

TEST_CASE("A refused batch leaves nothing behind") {
  Bench bench;
  std::vector<IoRequest> batch(3, read_request(bench.file, 0, bench.buffer));
  batch[2].offset = 1;
  CHECK(bench.device.submit(batch).error().kind() == ErrorKind::invalid_argument);
  batch[2].offset = 0;
  batch[2].file = FileHandle{77};
  CHECK(bench.device.submit(batch).error().kind() == ErrorKind::invalid_argument);
  CHECK(bench.device.attempts.empty());
  CHECK(bench.device.in_flight() == 0);
}

TEST_CASE("A slot is used again only with another generation") {
  RequestTable table;
  table.reserve(4);
  RequestTable::Slot& slot = table.begin({}, nullptr);
  const std::uint64_t first = table.begin_attempt(slot);
  CHECK(table.end_attempt(first) == &slot);
  CHECK(table.end_attempt(first) == nullptr);
  const std::uint64_t second = table.begin_attempt(slot);
  CHECK(second != first);
  CHECK((second & 0xFFFF) == (first & 0xFFFF));
  CHECK(table.end_attempt(first) == nullptr);
  CHECK(table.end_attempt(second) == &slot);
  table.end(slot);
  CHECK(table.active() == 0);
  CHECK(table.end_attempt(second) == nullptr);
}

}  // namespace

}  // namespace kvstrata::storage
