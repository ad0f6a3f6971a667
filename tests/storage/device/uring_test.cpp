// What is particular to io_uring: where it is refused, what can't be registered, and case A21.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "storage/device/faulty_device.h"
#include "storage/device/uring_device.h"
#include "tests/storage/device/support.h"

namespace kvstrata::storage {

namespace {

using namespace testing;

/// Limits locked memory to `bytes`, and gives up the right to ignore that.
bool limit_memlock(std::uint64_t bytes) {
  const rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
  return ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
         (::getuid() != 0 || (::setgid(65534) == 0 && ::setuid(65534) == 0));
}

/// Writes, reads back and compares through `buffers` that are registered if the kernel lets us.
bool round_trip(Device& device, std::uint64_t bytes) {
  const FileHandle file = make_file(device, "segment", bytes, 8);
  const AlignedBuffer buffer(bytes);
  (void)device.register_buffer(buffer.data(), buffer.size());
  const bool same =
      device.run(read_request(file, 0, buffer)).ok() && filled_with(buffer.bytes(), 8);
  device.unregister_buffer(buffer.data());
  return same;
}

/// A directory that nobody, too, may write to.
std::unique_ptr<TempDirectory> open_directory() {
  auto directory = std::make_unique<TempDirectory>();
  KV_CHECK(::chmod(directory->path().c_str(), 0777) == 0, "chmod failed");
  return directory;
}

TEST_CASE("Where the kernel refuses io_uring the device is psync and says why") {
  for (const int error_number : {ENOSYS, EPERM, ENOMEM}) {
    const auto directory = open_directory();
    CHECK(in_child([&] {
            std::string reason;
            if (!forbid(__NR_io_uring_setup, error_number)) {
              return 1;
            }
            const auto device = open_device({.directory = directory->path()}, &reason);
            if (!device || (*device)->name() != "psync" ||
                reason.find("io_uring_setup") == std::string::npos ||
                reason.find("psync") == std::string::npos) {
              return 2;
            }
            return round_trip(**device, 1_MiB) ? 0 : 3;
          }) == 0);
  }
}

TEST_CASE("io_uring asked for by name is not replaced in silence") {
  const auto directory = open_directory();
  CHECK(in_child([&] {
          if (!forbid(__NR_io_uring_setup, ENOSYS)) {
            return 1;
          }
          const auto device =
              open_device({.directory = directory->path(), .kind = DeviceKind::io_uring}, nullptr);
          return device.ok() ? 2 : device.error().kind() == ErrorKind::unsupported ? 0 : 3;
        }) == 0);
}

TEST_CASE("A clone that gets no ring is psync, unless io_uring was asked for by name") {
  for (const DeviceKind kind : {DeviceKind::automatic, DeviceKind::io_uring}) {
    const auto directory = open_directory();
    CHECK(in_child([&] {
            const auto device =
                open_device({.directory = directory->path(), .kind = kind}, nullptr).value();
            if (!forbid(__NR_io_uring_setup, ENOMEM)) {
              return 1;
            }
            const auto clone = device->clone();
            if (kind == DeviceKind::io_uring) {
              return clone.ok() ? 2 : 0;
            }
            return clone.ok() && (*clone)->name() == "psync" ? 0 : 3;
          }) == 0);
  }
}

TEST_CASE("Where registering is refused transfers go on with descriptors and addresses") {
  const auto directory = open_directory();
  CHECK(in_child([&] {
          std::string reason;
          // The ring is enabled by the same call: refuse it only once a first request ran.
          const auto device = open_device({.directory = directory->path()}, &reason).value();
          if (!round_trip(*device, 64_KiB) || !forbid(__NR_io_uring_register, EPERM)) {
            return 1;
          }
          const AlignedBuffer buffer(64_KiB);
          if (device->register_buffer(buffer.data(), buffer.size()).ok()) {
            return 2;
          }
          const bool works = round_trip(*device, 1_MiB);
          return works && device->stats().registration_failures == 2 ? 0 : 3;
        }) == 0);
}

TEST_CASE("A file the kernel would not let go of is taken from it at the next use") {
  class OnceRefusing final : public UringSystem {
   public:
    int update_file(io_uring& ring, unsigned place, int fd) const override {
      if (fd < 0 && refuses) return -ENOMEM;
      given_up += fd < 0 ? 1 : 0;
      return UringSystem::update_file(ring, place, fd);
    }
    bool refuses = true;
    mutable int given_up = 0;
  };
  const TempDirectory directory;
  OnceRefusing system;
  const auto device =
      open_device(
          {.directory = directory.path(), .kind = DeviceKind::io_uring, .uring_system = &system},
          nullptr)
          .value();
  const FileHandle kept = make_file(*device, "kept", 64_KiB, 8);
  device->close(make_file(*device, "closed", 64_KiB, 9));
  CHECK(system.given_up == 0);
  const AlignedBuffer buffer(64_KiB);
  CHECK(device->run(read_request(kept, 0, buffer)).ok());
  system.refuses = false;
  CHECK(device->run(read_request(kept, 0, buffer)).ok());
  CHECK(device->run(read_request(kept, 0, buffer)).ok());
  CHECK(system.given_up == 1);
}

TEST_CASE("With memlock of 64 KiB reads still work unregistered, and the limit is named") {
  for (const std::uint64_t limit : {64_KiB, 8_MiB}) {
    const auto directory = open_directory();
    CHECK(in_child([&] {
            if (!limit_memlock(limit)) {
              return 1;
            }
            const auto device = open_device({.directory = directory->path()}, nullptr).value();
            const AlignedBuffer large(16_MiB);
            const Status status = device->register_buffer(large.data(), large.size());
            if (device->name() == "io_uring" &&
                (status.ok() || status.error().message().find("RLIMIT_MEMLOCK is " +
                                                              std::to_string(limit / 1024)) ==
                                    std::string::npos)) {
              return 2;
            }
            if (device->stats().registration_failures != 1) {
              return 3;
            }
            return round_trip(*device, 4_MiB) ? 0 : 4;
          }) == 0);
  }
}

TEST_CASE("Registered buffers are used, up to their end and no further") {
  const TempDirectory directory;
  const auto device =
      open_device({.directory = directory.path(), .kind = DeviceKind::io_uring}, nullptr).value();
  const FileHandle file = make_file(*device, "segment", 256_KiB, 8);
  const AlignedBuffer memory(512_KiB);
  REQUIRE(device->register_buffer(memory.data() + 64_KiB, 128_KiB).ok());
  CHECK_FALSE(device->register_buffer(memory.data() + 64_KiB, 128_KiB).ok());
  const auto read = [&](std::uint64_t at, std::uint64_t bytes) {
    const std::uint64_t before = device->stats().registered_transfers;
    const IoRequest request{.file = file, .buffer = memory.data() + at, .bytes = bytes};
    CHECK(device->run(request).ok());
    CHECK(filled_with(memory.bytes().subspan(at, bytes), 8));
    return device->stats().registered_transfers - before;
  };
  CHECK(read(64_KiB, 128_KiB) == 1);
  CHECK(read(188_KiB, 4_KiB) == 1);
  CHECK(read(188_KiB, 8_KiB) == 0);
  CHECK(read(60_KiB, 8_KiB) == 0);
  CHECK(read(0, 64_KiB) == 0);
  CHECK(read(192_KiB, 64_KiB) == 0);
  device->unregister_buffer(memory.data() + 64_KiB);
  CHECK(read(64_KiB, 128_KiB) == 0);
  device->unregister_buffer(memory.data() + 64_KiB);  // of none: nothing
}

TEST_CASE("More buffers than the table has places stay unregistered") {
  const TempDirectory directory;
  const auto device =
      open_device({.directory = directory.path(), .kind = DeviceKind::io_uring}, nullptr).value();
  const AlignedBuffer memory(300 * 4_KiB);
  int registered = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    registered += device->register_buffer(memory.data() + i * 4_KiB, 4_KiB).ok() ? 1 : 0;
  }
  CHECK(registered == 256);
  CHECK(device->stats().registration_failures == 44);
  device->unregister_buffer(memory.data());
  CHECK(device->register_buffer(memory.data() + 299 * 4_KiB, 4_KiB).ok());
}

TEST_CASE("A buffer registered from another thread is used once the owner submits") {
  const TempDirectory directory;
  const auto device =
      open_device({.directory = directory.path(), .kind = DeviceKind::io_uring}, nullptr).value();
  const FileHandle file = make_file(*device, "segment", 64_KiB, 8);  // this thread owns the ring
  const AlignedBuffer buffer(64_KiB);
  std::thread([&] { CHECK(device->register_buffer(buffer.data(), buffer.size()).ok()); }).join();
  CHECK(device->run(read_request(file, 0, buffer)).ok());
  CHECK(device->stats().registered_transfers == 1);
  std::thread([&] { device->unregister_buffer(buffer.data()); }).join();
  CHECK(device->run(read_request(file, 0, buffer)).ok());
  CHECK(device->stats().registered_transfers == 1);
}

TEST_CASE("A ring that refuses what it is given fails those requests and loses none") {
  CHECK(in_child([] {
          const TempDirectory directory;
          const auto device =
              open_device({.directory = directory.path(), .kind = DeviceKind::io_uring}, nullptr)
                  .value();
          const FileHandle file = make_file(*device, "segment", 64_KiB, 8);
          if (!forbid(__NR_io_uring_enter, ENXIO)) {
            return 1;
          }
          const AlignedBuffer buffer(3 * 4_KiB);
          if (!device->submit(reads_of_parts(file, 3, buffer)).ok()) {
            return 2;
          }
          const std::vector<IoCompletion> ended = wait_all(*device);
          for (const IoCompletion& end : ended) {
            if (end.status.ok() || end.status.error().kind() != ErrorKind::io) {
              return 3;
            }
          }
          return ended.size() == 3 && device->in_flight() == 0 ? 0 : 4;
        }) == 0);
}

TEST_CASE("A device with requests in flight that changes threads is a bug that stops the process") {
  const TempDirectory directory;
  const int end = in_child([&] {
    (void)std::freopen("/dev/null", "w", stderr);
    auto script = std::make_shared<FaultScript>();
    FaultyDevice device(
        open_device({.directory = directory.path(), .kind = DeviceKind::io_uring}, nullptr).value(),
        script);
    const FileHandle file = make_file(device, "segment", 64_KiB, 8);
    const AlignedBuffer buffer(64_KiB);
    const IoRequest request = read_request(file, 0, buffer);
    device.submit({&request, 1}).value();
    std::thread([&] { (void)device.submit({&request, 1}); }).join();
    return 0;
  });
  CHECK(end == -SIGABRT);
}

}  // namespace

}  // namespace kvstrata::storage
