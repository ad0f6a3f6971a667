// ThrottledDevice, RecordingDevice, and decorators of decorators.
#include <doctest/doctest.h>

#include <cerrno>

#include "storage/device/faulty_device.h"
#include "storage/device/memory_device.h"
#include "storage/device/recording_device.h"
#include "storage/device/throttled_device.h"
#include "tests/storage/device/support.h"

namespace kvstrata::storage {

namespace {

using namespace testing;
using Kind = RecordedOperation::Kind;

std::unique_ptr<Device> memory() {
  return std::make_unique<MemoryDevice>(std::make_shared<MemoryDisk>());
}

std::size_t poll(Device& device) {
  std::vector<IoCompletion> ended;
  return device.wait(ended, 0, Milliseconds(0)).value();
}

TEST_CASE("A throttled device moves its bytes a second and no more, by its clock") {
  FakeClock clock;
  std::unique_ptr<Device> inner = memory();
  make_file(*inner, "segment", 4_MiB, 1);
  ThrottledDevice device(inner->clone().value(), {.bytes_per_second = 1_MiB}, clock);
  const FileHandle file = device.open("segment", false).value();
  const AlignedBuffer buffer(2_MiB);
  REQUIRE(device.submit(reads_of_parts(file, 4, buffer)).ok());
  CHECK(poll(device) == 0);
  clock.advance(Milliseconds(499));
  CHECK(poll(device) == 0);
  clock.advance(Milliseconds(1));
  CHECK(poll(device) == 1);
  clock.advance(Milliseconds(1000));
  CHECK(poll(device) == 2);
  clock.advance(Milliseconds(500));
  CHECK(poll(device) == 1);
  CHECK(filled_with(buffer.bytes(), 1));
}

TEST_CASE("Clones of a throttled device share its rate") {
  FakeClock clock;
  std::unique_ptr<Device> inner = memory();
  make_file(*inner, "segment", 1_MiB, 1);
  ThrottledDevice device(inner->clone().value(), {.bytes_per_second = 1_MiB}, clock);
  const std::unique_ptr<Device> clone = device.clone().value();
  const AlignedBuffer buffer(1_MiB);
  const IoRequest first = read_request(device.open("segment", false).value(), 0, buffer);
  const AlignedBuffer other(1_MiB);
  const IoRequest second = read_request(clone->open("segment", false).value(), 0, other);
  REQUIRE(device.submit({&first, 1}).ok());
  REQUIRE(clone->submit({&second, 1}).ok());
  clock.advance(Milliseconds(1000));
  CHECK(poll(device) == 1);
  CHECK(poll(*clone) == 0);
  clock.advance(Milliseconds(1000));
  CHECK(poll(*clone) == 1);
}

TEST_CASE("Every operation of a throttled device takes its latency, syncs too") {
  FakeClock clock;
  ThrottledDevice device(memory(), {.latency = Milliseconds(20)}, clock);
  const FileHandle file = device.open("segment", true).value();
  const IoRequest sync = sync_request(file);
  REQUIRE(device.submit({&sync, 1}).ok());
  CHECK(poll(device) == 0);
  clock.advance(Milliseconds(20));
  CHECK(poll(device) == 1);
}

TEST_CASE("A throttled device works by the machine's clock on every back end") {
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    ThrottledDevice device(back_end.open(16),
                           {.bytes_per_second = 1_GiB, .latency = Milliseconds(1)});
    const FileHandle file = make_file(device, "segment", 256_KiB, 1);
    const AlignedBuffer buffer(256_KiB);
    REQUIRE(device.submit(reads_of_parts(file, 8, buffer)).ok());
    CHECK(wait_all(device).size() == 8);
    CHECK(filled_with(buffer.bytes(), 1));
  }
}

TEST_CASE("A recording keeps the order of what was asked for and how it ended") {
  auto recording = std::make_shared<Recording>();
  RecordingDevice device(memory(), recording);
  const FileHandle file = make_file(device, "segment", 64_KiB, 1);
  REQUIRE(device.run(sync_request(file)).ok());
  REQUIRE(device.sync_directory().ok());
  const AlignedBuffer buffer(64_KiB);
  CHECK_FALSE(device.run(read_request(file, 64_KiB, buffer)).ok());
  device.close(file);
  const std::vector<RecordedOperation> log = recording->operations();
  const std::vector<std::pair<Kind, bool>> expected = {
      {Kind::open, false},           {Kind::allocate, false},  {Kind::write, false},
      {Kind::write, true},           {Kind::data_sync, false}, {Kind::data_sync, true},
      {Kind::sync_directory, false}, {Kind::read, false},      {Kind::read, true},
      {Kind::close, false}};
  REQUIRE(log.size() == expected.size());
  for (std::size_t i = 0; i < log.size(); ++i) {
    CHECK(log[i].kind == expected[i].first);
    CHECK(log[i].ended == expected[i].second);
    CHECK(log[i].ok);
  }
  CHECK(log[2].name == "segment");
  CHECK(log[2].bytes == 64_KiB);
  CHECK(log[8].bytes == 0);  // the end of the file
  CHECK(recording->count(Kind::write) == 1);
  CHECK(recording->count(Kind::remove) == 0);
}

TEST_CASE("Clones write into one recording and take faults from one script") {
  auto recording = std::make_shared<Recording>();
  auto script = std::make_shared<FaultScript>();
  FaultyDevice device(std::make_unique<RecordingDevice>(memory(), recording), script);
  CHECK(device.name() == "faulty(recording(memory))");
  make_file(device, "segment", 64_KiB, 1);
  const std::unique_ptr<Device> clone = device.clone().value();
  CHECK(clone->name() == device.name());
  script->add({.target = FaultTarget::open, .nth = 2, .error_number = EACCES});
  CHECK(device.open("segment", false).ok());
  CHECK(clone->open("segment", false).error().kind() == ErrorKind::permission_denied);
  CHECK(clone->open("segment", false).ok());
  CHECK(recording->count(Kind::open) == 3);
}

TEST_CASE("A completion that comes twice passes through other decorators") {
  auto script = std::make_shared<FaultScript>();
  auto recording = std::make_shared<Recording>();
  RecordingDevice device(std::make_unique<ThrottledDevice>(
                             std::make_unique<FaultyDevice>(memory(), script), ThrottleOptions{}),
                         recording);
  const FileHandle file = make_file(device, "segment", 64_KiB, 1);
  script->add({.target = FaultTarget::read, .action = FaultAction::duplicate});
  const AlignedBuffer buffer(64_KiB);
  CHECK(device.run(read_request(file, 0, buffer)).ok());
  CHECK(device.run(read_request(file, 0, buffer)).ok());
  CHECK(device.stats().stale_completions == 1);
}

TEST_CASE("A delayed completion comes after as many later ones, or when nothing else can end") {
  auto script = std::make_shared<FaultScript>();
  FaultyDevice device(memory(), script);
  const FileHandle file = make_file(device, "segment", 64_KiB, 1);
  script->add({.target = FaultTarget::read, .action = FaultAction::delay, .completions = 2});
  const AlignedBuffer buffer(16_KiB);
  REQUIRE(device.submit(reads_of_parts(file, 4, buffer)).ok());
  std::vector<IoCompletion> ended = wait_all(device);
  REQUIRE(ended.size() == 4);
  CHECK(ended.front().tag == 1);
  CHECK(std::find_if(ended.begin(), ended.end(), [](auto& end) { return end.tag == 0; }) -
            ended.begin() >=
        2);

  script->add({.target = FaultTarget::read, .action = FaultAction::delay, .completions = 50});
  CHECK(device.run(read_request(file, 0, buffer)).ok());
}

TEST_CASE("Each metadata operation fails as the script says, with the errno's kind") {
  auto script = std::make_shared<FaultScript>();
  FaultyDevice device(memory(), script);
  const FileHandle file = device.open("segment", true).value();
  for (const FaultTarget target :
       {FaultTarget::open, FaultTarget::allocate, FaultTarget::size, FaultTarget::remove,
        FaultTarget::sync_directory, FaultTarget::list}) {
    script->add({.target = target, .from_then_on = true, .error_number = ENOSPC});
  }
  CHECK(device.open("segment", false).error().kind() == ErrorKind::out_of_space);
  CHECK(device.allocate(file, 4_KiB).error().kind() == ErrorKind::out_of_space);
  CHECK(device.size(file).error().kind() == ErrorKind::out_of_space);
  CHECK(device.remove("segment").error().kind() == ErrorKind::out_of_space);
  CHECK(device.sync_directory().error().kind() == ErrorKind::out_of_space);
  CHECK(device.list().error().kind() == ErrorKind::out_of_space);
  CHECK(script->injected() == 6);
}

}  // namespace

}  // namespace kvstrata::storage
