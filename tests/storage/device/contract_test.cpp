// The rules of doc/devices.md that every back end keeps.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "kvstrata/check.h"
#include "tests/storage/device/support.h"

namespace kvstrata::storage {

namespace {

using namespace testing;

ErrorKind kind_of(const Status& status) {
  return status.error().kind();
}

/// Runs the rule on an open device of each back end.
void on_every_back_end(const std::function<void(Device&)>& rule, std::size_t queue_depth = 64) {
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    const std::unique_ptr<Device> device = back_end.open(queue_depth);
    rule(*device);
  }
}

TEST_CASE("What was written is read back") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "segment-1.seg", 1_MiB, 7);
    CHECK(device.run(sync_request(file)).ok());
    const AlignedBuffer part(64_KiB);
    CHECK(device.run(read_request(file, 128_KiB, part)).ok());
    CHECK(filled_with(part.bytes(), 7, 128_KiB));
    CHECK(device.stats().reads == 1);
    CHECK(device.stats().read_bytes == 64_KiB);
    CHECK(device.stats().writes == 1);
    CHECK(device.stats().written_bytes == 1_MiB);
    CHECK(device.stats().syncs == 1);
    CHECK(device.stats().errors == 0);
  });
}

TEST_CASE("A batch ends with one completion for each request, by tag") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "segment", 1_MiB, 3);
    const AlignedBuffer buffer(1_MiB);
    REQUIRE(device.submit(reads_of_parts(file, 32, buffer, 100)).ok());
    CHECK(device.in_flight() == 32);
    std::vector<IoCompletion> ended = wait_all(device);
    REQUIRE(ended.size() == 32);
    std::sort(ended.begin(), ended.end(), [](auto& a, auto& b) { return a.tag < b.tag; });
    for (std::uint64_t i = 0; i < 32; ++i) {
      CHECK(ended[i].tag == 100 + i);
      CHECK(ended[i].status.ok());
    }
    CHECK(filled_with(buffer.bytes(), 3));
  });
}

TEST_CASE("More requests than the queue is deep are busy, and none is taken") {
  on_every_back_end(
      [](Device& device) {
        const FileHandle file = make_file(device, "segment", 64_KiB, 3);
        const AlignedBuffer buffer(5 * 4_KiB);
        const std::vector<IoRequest> five = reads_of_parts(file, 5, buffer);
        CHECK(kind_of(device.submit(five)) == ErrorKind::busy);
        CHECK(device.in_flight() == 0);
        const std::span three = std::span(five).first(3);
        CHECK(device.submit(three).ok());
        const std::span two = std::span(five).last(2);
        CHECK(kind_of(device.submit(two)) == ErrorKind::busy);
        CHECK(wait_all(device).size() == 3);
        CHECK(device.submit(two).ok());
        CHECK(wait_all(device).size() == 2);
      },
      4);
}

TEST_CASE("A read past the end of the file fails") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 3);
    const AlignedBuffer buffer(32_KiB);
    CHECK(kind_of(device.run(read_request(file, 64_KiB, buffer))) == ErrorKind::io);
    CHECK(kind_of(device.run(read_request(file, 48_KiB, buffer))) == ErrorKind::io);
    CHECK(device.run(read_request(file, 32_KiB, buffer)).ok());
    CHECK(device.stats().errors == 2);
    CHECK(device.stats().read_bytes == 32_KiB);
  });
}

TEST_CASE("A transfer that is not in whole units of 4096 is refused") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 3);
    const AlignedBuffer buffer(8_KiB);
    IoRequest request = read_request(file, 0, buffer);
    request.offset = 512;
    CHECK(kind_of(device.submit({&request, 1})) == ErrorKind::invalid_argument);
    request = read_request(file, 0, buffer);
    request.bytes = 4095;
    CHECK(kind_of(device.submit({&request, 1})) == ErrorKind::invalid_argument);
    request = read_request(file, 0, buffer);
    request.buffer += 8;
    CHECK(kind_of(device.submit({&request, 1})) == ErrorKind::invalid_argument);
    request = read_request(file, 0, buffer);
    request.bytes = 0;
    CHECK(kind_of(device.submit({&request, 1})) == ErrorKind::invalid_argument);
    request = read_request(file, 0, buffer);
    request.buffer = nullptr;
    CHECK(kind_of(device.submit({&request, 1})) == ErrorKind::invalid_argument);
    request = read_request(file, 0, buffer);
    request.bytes = transfer_bytes_max + io_alignment;
    CHECK(kind_of(device.submit({&request, 1})) == ErrorKind::too_large);
    request = read_request(file, 0, buffer);
    request.offset = ~std::uint64_t{4095};
    CHECK(kind_of(device.submit({&request, 1})) == ErrorKind::too_large);
    CHECK(kind_of(device.allocate(file, 1000)) == ErrorKind::invalid_argument);
    CHECK(kind_of(device.allocate(file, 0)) == ErrorKind::invalid_argument);
    CHECK(device.in_flight() == 0);
  });
}

TEST_CASE("A closed file is not open, also when others are opened since") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "a", 64_KiB, 3);
    device.close(file);
    const FileHandle other = make_file(device, "b", 64_KiB, 4);
    const AlignedBuffer buffer(4_KiB);
    CHECK(kind_of(device.run(read_request(file, 0, buffer))) == ErrorKind::invalid_argument);
    CHECK(device.size(file).error().kind() == ErrorKind::invalid_argument);
    CHECK(kind_of(device.allocate(file, 4_KiB)) == ErrorKind::invalid_argument);
    CHECK(device.run(read_request(other, 0, buffer)).ok());
    CHECK(filled_with(buffer.bytes(), 4));
  });
}

TEST_CASE("A place in the file table that is used again names the new file") {
  on_every_back_end([](Device& device) {
    const AlignedBuffer buffer(4_KiB);
    for (std::uint64_t round = 0; round < 20; ++round) {
      const FileHandle file = make_file(device, "f" + std::to_string(round), 64_KiB, round);
      CHECK(device.run(read_request(file, 0, buffer)).ok());
      CHECK(filled_with(buffer.bytes(), round));
      device.close(file);
      CHECK(device.remove("f" + std::to_string(round)).ok());
    }
    CHECK(device.list().value().empty());
  });
}

TEST_CASE("A file opened by another thread in the place of one it closed is the new file") {
  on_every_back_end([](Device& device) {
    FileHandle file = make_file(device, "a", 64_KiB, 3);
    device.close(make_file(device, "b", 64_KiB, 4));
    const AlignedBuffer buffer(4_KiB);
    CHECK(device.run(read_request(file, 0, buffer)).ok());
    std::thread([&] {
      device.close(file);
      file = device.open("b", false).value();
    }).join();
    CHECK(device.run(read_request(file, 0, buffer)).ok());
    CHECK(filled_with(buffer.bytes(), 4));
  });
}

TEST_CASE("A name that could leave the directory or hide in it is refused") {
  on_every_back_end([](Device& device) {
    for (const char* name :
         {"", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a b", "a\n"}) {
      CAPTURE(name);
      CHECK(device.open(name, true).error().kind() == ErrorKind::invalid_argument);
      CHECK(kind_of(device.remove(name)) == ErrorKind::invalid_argument);
    }
    CHECK(device.open(std::string(201, 'a'), true).error().kind() == ErrorKind::invalid_argument);
    CHECK(device.open(std::string("a\0b", 3), true).error().kind() == ErrorKind::invalid_argument);
    CHECK(device.open(std::string(200, 'a'), true).ok());
  });
}

TEST_CASE("A file that is not there is not found, and is made only when asked for") {
  on_every_back_end([](Device& device) {
    CHECK(device.open("absent", false).error().kind() == ErrorKind::not_found);
    CHECK(kind_of(device.remove("absent")) == ErrorKind::not_found);
    CHECK(device.open("present", true).ok());
    CHECK(device.open("present", false).ok());
    CHECK(device.sync_directory().ok());
    CHECK(device.list().value() == std::vector<std::string>{"present"});
  });
}

TEST_CASE("Allocating gives zeros to the stated size and leaves what is there") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 3);
    CHECK(device.allocate(file, 128_KiB).ok());
    CHECK(device.size(file).value() == 128_KiB);
    CHECK(device.allocate(file, 32_KiB).ok());
    CHECK(device.size(file).value() == 128_KiB);
    const AlignedBuffer buffer(128_KiB);
    CHECK(device.run(read_request(file, 0, buffer)).ok());
    CHECK(filled_with(buffer.bytes().first(64_KiB), 3));
    CHECK(std::all_of(buffer.bytes().begin() + 64_KiB, buffer.bytes().end(),
                      [](std::byte b) { return b == std::byte{0}; }));
  });
}

TEST_CASE("A clone is on the same directory, for another thread") {
  on_every_back_end([](Device& device) {
    make_file(device, "segment", 64_KiB, 3);
    const std::unique_ptr<Device> clone = device.clone().value();
    bool same = false;
    std::thread([&] {
      const FileHandle file = clone->open("segment", false).value();
      const AlignedBuffer buffer(64_KiB);
      same = clone->run(read_request(file, 0, buffer)).ok() && filled_with(buffer.bytes(), 3);
    }).join();
    CHECK(same);
    CHECK(clone->name() == device.name());
    CHECK(clone->queue_depth() == device.queue_depth());
  });
}

TEST_CASE("A device may move to another thread while nothing is in flight") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 3);
    const AlignedBuffer buffer(64_KiB);
    (void)device.register_buffer(buffer.data(), buffer.size());
    for (int i = 0; i < 3; ++i) {
      bool read = false;
      std::thread([&] {
        const FileHandle mine = device.open("segment", false).value();
        read = device.run(read_request(mine, 0, buffer)).ok() && filled_with(buffer.bytes(), 3);
        device.close(mine);
      }).join();
      CHECK(read);
      CHECK(device.run(read_request(file, 0, buffer)).ok());
    }
    device.unregister_buffer(buffer.data());
    CHECK(device.run(read_request(file, 0, buffer)).ok());
  });
}

TEST_CASE("Destroying a device waits for what is in flight") {
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    std::unique_ptr<Device> device = back_end.open(64);
    const FileHandle file = device->open("segment", true).value();
    const AlignedBuffer content(64 * 16_KiB);
    fill(content.bytes(), 9);
    std::vector<IoRequest> batch;
    for (std::uint64_t i = 0; i < 64; ++i) {
      batch.push_back({.operation = IoOperation::write,
                       .file = file,
                       .offset = i * 16_KiB,
                       .buffer = content.data() + i * 16_KiB,
                       .bytes = 16_KiB});
    }
    REQUIRE(device->submit(batch).ok());
    const std::unique_ptr<Device> clone = device->clone().value();
    device.reset();
    const AlignedBuffer read_back(content.size());
    const FileHandle again = clone->open("segment", false).value();
    CHECK(clone->run(read_request(again, 0, read_back)).ok());
    CHECK(filled_with(read_back.bytes(), 9));
  }
}

/// Leaves 32 reads of a file in flight.
void leave_reads_in_flight(Device& device, const AlignedBuffer& buffer) {
  const FileHandle file = make_file(device, "segment", buffer.size(), 3);
  KV_CHECK(device.submit(reads_of_parts(file, 32, buffer)).ok(), "submit failed");
}

TEST_CASE("A device is drained also when its thread has ended") {
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    std::unique_ptr<Device> device = back_end.open(64);
    AlignedBuffer buffer(1_MiB);
    std::thread([&] { leave_reads_in_flight(*device, buffer); }).join();
    device.reset();
    // Nobody writes to the buffer any more.
    fill(buffer.bytes(), 4);
    CHECK(filled_with(buffer.bytes(), 4));
  }
}

TEST_CASE("A device is drained also by another thread than the one that submitted") {
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    std::unique_ptr<Device> device = back_end.open(64);
    AlignedBuffer buffer(1_MiB);
    leave_reads_in_flight(*device, buffer);
    std::thread([&] { device.reset(); }).join();
    fill(buffer.bytes(), 4);
    CHECK(filled_with(buffer.bytes(), 4));
  }
}

TEST_CASE("Waiting for more than is in flight returns when nothing is left") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 3);
    std::vector<IoCompletion> ended;
    CHECK(device.wait(ended, 10, Milliseconds::max()).value() == 0);
    const AlignedBuffer buffer(8_KiB);
    REQUIRE(device.submit(reads_of_parts(file, 2, buffer)).ok());
    CHECK(device.wait(ended, 10, Milliseconds::max()).value() == 2);
    CHECK(ended.size() == 2);
  });
}

TEST_CASE("run() keeps the completions of others for the next wait") {
  on_every_back_end([](Device& device) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 3);
    const AlignedBuffer buffer(12_KiB);
    const AlignedBuffer own(4_KiB);
    REQUIRE(device.submit(reads_of_parts(file, 3, buffer, 5)).ok());
    CHECK(device.run(read_request(file, 4_KiB, own, 99)).ok());
    CHECK(filled_with(own.bytes(), 3, 4_KiB));
    CHECK(device.in_flight() == 3);
    const std::vector<IoCompletion> ended = wait_all(device);
    CHECK(ended.size() == 3);
    CHECK(std::all_of(ended.begin(), ended.end(), [](auto& end) { return end.tag != 99; }));
  });
}

TEST_CASE("Closing a file with requests in flight is a bug that stops the process") {
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    const int end = in_child([&] {
      (void)std::freopen("/dev/null", "w", stderr);
      const std::unique_ptr<Device> device = back_end.open(8);
      const FileHandle file = make_file(*device, "segment", 64_KiB, 3);
      const AlignedBuffer buffer(4_KiB);
      const IoRequest request = read_request(file, 0, buffer);
      device->submit({&request, 1}).value();
      device->close(file);
      return 0;
    });
    CHECK(end == -SIGABRT);
  }
}

TEST_CASE("More files than the ring's table has places are read all the same") {
  on_every_back_end([](Device& device) {
    std::vector<FileHandle> files;
    for (std::uint64_t i = 0; i < 260; ++i) {
      const std::string name = "f" + std::to_string(i);
      files.push_back(i % 20 == 19 ? make_file(device, name, 4_KiB, i)
                                   : device.open(name, true).value());
    }
    const AlignedBuffer buffer(4_KiB);
    for (std::uint64_t i = 19; i < 260; i += 20) {
      CHECK(device.run(read_request(files[i], 0, buffer)).ok());
      CHECK(filled_with(buffer.bytes(), i));
    }
  });
}

}  // namespace

}  // namespace kvstrata::storage
