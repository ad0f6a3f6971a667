// What a MemoryDisk keeps and may lose when the power goes.
#include <doctest/doctest.h>

#include <algorithm>

#include "storage/device/memory_device.h"
#include "tests/storage/device/support.h"

namespace kvstrata::storage {

namespace {

using namespace testing;

struct Machine {
  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>(16_MiB);
  std::unique_ptr<Device> device = std::make_unique<MemoryDevice>(disk);

  /// Pulls the plug and starts again.
  void crash(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    disk->crash(random);
    device = std::make_unique<MemoryDevice>(disk);
  }

  /// A synced file with a synced name, filled with `seed`.
  FileHandle durable_file(const std::string& name, std::uint64_t bytes, std::uint64_t seed) {
    const FileHandle file = make_file(*device, name, bytes, seed);
    device->run(sync_request(file)).value();
    device->sync_directory().value();
    return file;
  }

  AlignedBuffer content(const std::string& name) {
    const FileHandle file = device->open(name, false).value();
    AlignedBuffer buffer(device->size(file).value());
    if (buffer.size() > 0) {
      device->run(read_request(file, 0, buffer)).value();
    }
    return buffer;
  }
};

TEST_CASE("What was synced, name and data, survives every crash") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Machine machine;
    machine.durable_file("segment", 64_KiB, 7);
    machine.crash(seed);
    CHECK(filled_with(machine.content("segment").bytes(), 7));
  }
}

TEST_CASE("What a failed sync should have written may be lost though later syncs succeed") {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Machine machine;
    const FileHandle file = machine.durable_file("segment", 4_KiB, 1);
    AlignedBuffer fresh(4_KiB);
    fill(fresh.bytes(), 2);
    machine.device->run(write_request(file, 0, fresh)).value();
    machine.disk->fail_syncs([] { return true; });
    CHECK_FALSE(machine.device->run(sync_request(file)).ok());
    machine.disk->fail_syncs(nullptr);
    machine.device->run(sync_request(file)).value();
    machine.crash(seed);
    lost += filled_with(machine.content("segment").bytes(), 1) ? 1 : 0;
  }
  CHECK(lost > 0);
  CHECK(lost < 50);
}

TEST_CASE("A sector written again after a failed sync is durable with the next one") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Machine machine;
    const FileHandle file = machine.durable_file("segment", 4_KiB, 1);
    AlignedBuffer fresh(4_KiB);
    fill(fresh.bytes(), 2);
    machine.device->run(write_request(file, 0, fresh)).value();
    machine.disk->fail_syncs([] { return true; });
    CHECK_FALSE(machine.device->run(sync_request(file)).ok());
    machine.disk->fail_syncs(nullptr);
    machine.device->run(write_request(file, 0, fresh)).value();
    machine.device->run(sync_request(file)).value();
    machine.crash(seed);
    CHECK(filled_with(machine.content("segment").bytes(), 2));
  }
}

TEST_CASE("Of unsynced sectors each is old or new, and any mixture comes up") {
  int all_old = 0;
  int all_new = 0;
  int mixed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Machine machine;
    const FileHandle file = machine.durable_file("segment", 12_KiB, 1);
    AlignedBuffer fresh(12_KiB);
    fill(fresh.bytes(), 2);
    machine.device->run(write_request(file, 0, fresh)).value();
    machine.crash(seed);
    const AlignedBuffer left = machine.content("segment");
    int kept = 0;
    for (std::uint64_t at = 0; at < 12_KiB; at += 4_KiB) {
      const ByteView sector = left.bytes().subspan(at, 4_KiB);
      const bool is_new = filled_with(sector, 2, at);
      CHECK(is_new != filled_with(sector, 1, at));
      kept += is_new ? 1 : 0;
    }
    all_old += kept == 0 ? 1 : 0;
    all_new += kept == 3 ? 1 : 0;
    mixed += kept == 1 || kept == 2 ? 1 : 0;
  }
  CHECK(all_old > 0);
  CHECK(all_new > 0);
  CHECK(mixed > 0);
}

TEST_CASE("The same seed loses the same sectors") {
  const auto left_by = [](std::uint64_t seed) {
    Machine machine;
    const FileHandle file = machine.durable_file("segment", 64_KiB, 1);
    AlignedBuffer fresh(64_KiB);
    fill(fresh.bytes(), 2);
    machine.device->run(write_request(file, 0, fresh)).value();
    machine.crash(seed);
    const AlignedBuffer left = machine.content("segment");
    return ByteVector(left.bytes().begin(), left.bytes().end());
  };
  CHECK(left_by(11) == left_by(11));
  CHECK(left_by(11) != left_by(12));
}

TEST_CASE("A sync does not cover a write whose completion was not waited for") {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Machine machine;
    const FileHandle file = machine.durable_file("segment", 4_KiB, 1);
    AlignedBuffer fresh(4_KiB);
    fill(fresh.bytes(), 2);
    const IoRequest batch[] = {write_request(file, 0, fresh), sync_request(file)};
    machine.device->submit(batch).value();
    wait_all(*machine.device);
    machine.crash(seed);
    lost += filled_with(machine.content("segment").bytes(), 1) ? 1 : 0;
  }
  CHECK(lost > 0);
}

TEST_CASE("A sync covers what was acknowledged also under a rewrite in flight") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Machine machine;
    const FileHandle file = machine.durable_file("segment", 4_KiB, 1);
    AlignedBuffer second(4_KiB);
    fill(second.bytes(), 2);
    AlignedBuffer third(4_KiB);
    fill(third.bytes(), 3);
    machine.device->run(write_request(file, 0, second)).value();
    const IoRequest batch[] = {write_request(file, 0, third), sync_request(file)};
    machine.device->submit(batch).value();
    wait_all(*machine.device);
    machine.crash(seed);
    const AlignedBuffer left = machine.content("segment");
    CHECK_FALSE(filled_with(left.bytes(), 1));
    CHECK(filled_with(left.bytes(), 2) != filled_with(left.bytes(), 3));
  }
}

TEST_CASE("An unsynced size may go, with the bytes beyond the old one") {
  int shrunk = 0;
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Machine machine;
    const FileHandle file = machine.durable_file("segment", 4_KiB, 1);
    machine.device->allocate(file, 64_KiB).value();
    machine.crash(seed);
    const std::uint64_t bytes = machine.content("segment").size();
    CHECK((bytes == 4_KiB || bytes == 64_KiB));
    (bytes == 4_KiB ? shrunk : kept)++;
    CHECK(machine.disk->used_bytes() == bytes);
  }
  CHECK(shrunk > 0);
  CHECK(kept > 0);
}

TEST_CASE("A name made or removed and not synced is there or not") {
  int made = 0;
  int removed = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Machine machine;
    machine.durable_file("old", 4_KiB, 1);
    machine.device->remove("old").value();
    make_file(*machine.device, "new", 4_KiB, 2);
    machine.crash(seed);
    const std::vector<std::string> names = machine.device->list().value();
    for (const std::string& name : names) {
      made += name == "new" ? 1 : 0;
      removed += name == "old" ? 1 : 0;
    }
  }
  CHECK((made > 0 && made < 50));
  CHECK((removed > 0 && removed < 50));
}

TEST_CASE("What a crash left is durable: a second one takes nothing") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Machine machine;
    const FileHandle file = machine.durable_file("old", 8_KiB, 1);
    AlignedBuffer fresh(16_KiB);
    fill(fresh.bytes(), 2);
    machine.device->run(write_request(file, 0, fresh)).value();
    machine.device->remove("old").value();
    make_file(*machine.device, "new", 16_KiB, 3);
    machine.crash(seed);
    const std::vector<std::string> names = machine.device->list().value();
    std::vector<ByteVector> contents;
    for (const std::string& name : names) {
      const AlignedBuffer content = machine.content(name);
      contents.emplace_back(content.bytes().begin(), content.bytes().end());
    }
    machine.crash(seed + 1000);
    REQUIRE(machine.device->list().value() == names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const AlignedBuffer content = machine.content(names[i]);
      CHECK(ByteVector(content.bytes().begin(), content.bytes().end()) == contents[i]);
    }
  }
}

TEST_CASE("A device from before the crash can do nothing to the disk") {
  Machine machine;
  const FileHandle file = machine.durable_file("segment", 64_KiB, 1);
  const std::unique_ptr<Device> before = std::move(machine.device);
  AlignedBuffer late(64_KiB);
  fill(late.bytes(), 2);
  const IoRequest in_flight = write_request(file, 64_KiB, late);
  before->submit({&in_flight, 1}).value();
  machine.crash(3);
  wait_all(*before);
  CHECK(before->run(write_request(file, 0, late)).error().kind() == ErrorKind::io);
  CHECK(before->run(read_request(file, 0, late)).error().kind() == ErrorKind::io);
  CHECK(before->run(sync_request(file)).error().kind() == ErrorKind::io);
  CHECK(before->allocate(file, 1_MiB).error().kind() == ErrorKind::io);
  CHECK(before->remove("segment").error().kind() == ErrorKind::io);
  CHECK(before->open("segment", false).error().kind() == ErrorKind::io);
  CHECK(before->sync_directory().error().kind() == ErrorKind::io);
  CHECK(before->list().error().kind() == ErrorKind::io);
  CHECK(before->size(file).error().kind() == ErrorKind::io);
  CHECK(filled_with(machine.content("segment").bytes().first(64_KiB), 1));
  const std::unique_ptr<Device> again = before->clone().value();
  CHECK(again->open("segment", false).ok());
}

TEST_CASE("A full memory disk is out_of_space, and a removed file gives its room back") {
  Machine machine;
  const FileHandle file = machine.device->open("segment", true).value();
  CHECK(machine.device->allocate(file, 17_MiB).error().kind() == ErrorKind::out_of_space);
  CHECK(machine.device->allocate(file, 16_MiB).ok());
  const FileHandle other = machine.device->open("other", true).value();
  const AlignedBuffer buffer(4_KiB);
  CHECK(machine.device->run(write_request(other, 0, buffer)).error().kind() ==
        ErrorKind::out_of_space);
  machine.device->remove("segment").value();
  CHECK(machine.disk->used_bytes() == 16_MiB);  // still open
  machine.device->close(file);
  CHECK(machine.disk->used_bytes() == 0);
  CHECK(machine.device->run(write_request(other, 0, buffer)).ok());
}

}  // namespace

}  // namespace kvstrata::storage
