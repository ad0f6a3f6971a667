// Case A20 and its kin: short transfers, failures in a batch and late completions, made below the
// public part of every back end.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "storage/device/faulty_device.h"
#include "tests/storage/device/support.h"

namespace kvstrata::storage {

namespace {

using namespace testing;

void on_every_back_end(const std::function<void(Device&, FaultScript&)>& rule) {
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    auto script = std::make_shared<FaultScript>();
    FaultyDevice device(back_end.open(64), script);
    rule(device, *script);
  }
}

TEST_CASE("A read cut short anywhere is continued and gives the right bytes") {
  on_every_back_end([](Device& device, FaultScript& script) {
    const FileHandle file = make_file(device, "segment", 256_KiB, 5);
    for (const std::uint64_t cut : {1_KiB, 4_KiB - 1, 4_KiB, 4_KiB + 1, 60_KiB, 64_KiB - 1}) {
      const AlignedBuffer buffer(64_KiB);
      fill(buffer.bytes(), 99);  // what a read that lies about its length would leave
      script.add({.target = FaultTarget::read, .action = FaultAction::cut, .bytes = cut});
      CHECK(device.run(read_request(file, 64_KiB, buffer)).ok());
      CHECK(filled_with(buffer.bytes(), 5, 64_KiB));
    }
    CHECK(device.stats().short_transfers == 6);
    CHECK(device.stats().errors == 0);
  });
}

TEST_CASE("A write cut short anywhere is continued and writes all") {
  on_every_back_end([](Device& device, FaultScript& script) {
    for (const std::uint64_t cut : {1_KiB, 4_KiB, 4_KiB + 1, 64_KiB - 1}) {
      script.add({.target = FaultTarget::write, .action = FaultAction::cut, .bytes = cut});
      const FileHandle file = make_file(device, "f" + std::to_string(cut), 64_KiB, cut);
      const AlignedBuffer buffer(64_KiB);
      CHECK(device.run(read_request(file, 0, buffer)).ok());
      CHECK(filled_with(buffer.bytes(), cut));
    }
    CHECK(device.stats().short_transfers == 4);
  });
}

TEST_CASE("A read that ends at zero bytes fails and leaves no doubt") {
  on_every_back_end([](Device& device, FaultScript& script) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 5);
    script.add({.target = FaultTarget::read, .action = FaultAction::cut, .bytes = 0});
    const AlignedBuffer buffer(64_KiB);
    CHECK(device.run(read_request(file, 0, buffer)).error().kind() == ErrorKind::io);
    CHECK(device.run(read_request(file, 0, buffer)).ok());
  });
}

TEST_CASE("10,000 reads of which one in ten is short all give the right bytes") {
  const std::uint64_t seed = test_seed("short reads");
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    auto script = std::make_shared<FaultScript>(seed);
    FaultyDevice device(back_end.open(32), script);
    constexpr std::uint64_t file_bytes = 4_MiB;
    const FileHandle file = make_file(device, "segment", file_bytes, seed);
    script->set_rates({.read_cut = 0.1, .again = 0.01, .delay = 0.05, .duplicate = 0.02});
    std::mt19937_64 random(seed);
    std::vector<AlignedBuffer> buffers;
    std::vector<IoRequest> requests(32);
    std::vector<std::uint64_t> idle;
    for (std::uint64_t i = 0; i < 32; ++i) {
      buffers.emplace_back(32_KiB);
      idle.push_back(i);
    }
    int submitted = 0;
    int wrong = 0;
    std::vector<IoCompletion> ended;
    while (submitted < 10'000 || device.in_flight() > 0) {
      std::vector<IoRequest> batch;
      while (!idle.empty() && submitted < 10'000) {
        const std::uint64_t i = idle.back();
        idle.pop_back();
        const std::uint64_t units = 1 + random() % 8;
        requests[i] =
            read_request(file, random() % (file_bytes / 4096 - units) * 4096, buffers[i], i);
        requests[i].bytes = units * 4096;
        batch.push_back(requests[i]);
        ++submitted;
      }
      REQUIRE(device.submit(batch).ok());
      ended.clear();
      REQUIRE(device.wait(ended, 1, std::chrono::seconds(60)).ok());
      for (const IoCompletion& end : ended) {
        const IoRequest& request = requests[end.tag];
        const bool right = filled_with({request.buffer, request.bytes}, seed, request.offset);
        wrong += end.status.ok() && right ? 0 : 1;
        idle.push_back(end.tag);
      }
    }
    CHECK(wrong == 0);
    CHECK(device.stats().reads == 10'000);
    CHECK(device.stats().errors == 0);
    CHECK(device.stats().short_transfers > 500);
    CHECK(device.stats().retries > 0);
    CHECK(device.stats().stale_completions > 0);
  }
}

TEST_CASE("A failed request in a batch fails alone") {
  on_every_back_end([](Device& device, FaultScript& script) {
    const FileHandle file = make_file(device, "segment", 256_KiB, 5);
    script.add({.target = FaultTarget::read, .nth = 3, .error_number = EIO});
    const AlignedBuffer buffer(256_KiB);
    REQUIRE(device.submit(reads_of_parts(file, 8, buffer)).ok());
    for (const IoCompletion& end : wait_all(device)) {
      CHECK(end.status.ok() == (end.tag != 2));
      if (end.status.ok()) {
        CHECK(filled_with(buffer.bytes().subspan(end.tag * 32_KiB, 32_KiB), 5, end.tag * 32_KiB));
      } else {
        CHECK(end.status.error().kind() == ErrorKind::io);
      }
    }
  });
}

TEST_CASE("A failed batch's buffers are not handed back before every completion came") {
  on_every_back_end([](Device& device, FaultScript& script) {
    const FileHandle file = make_file(device, "segment", 256_KiB, 5);
    script.add({.target = FaultTarget::read, .nth = 3, .error_number = EIO});
    for (const std::uint64_t nth : {4, 5, 6}) {
      script.add({.target = FaultTarget::read, .action = FaultAction::hold, .nth = nth});
    }
    const AlignedBuffer buffer(256_KiB);
    REQUIRE(device.submit(reads_of_parts(file, 8, buffer)).ok());
    std::vector<IoCompletion> ended;
    while (ended.size() < 5) {
      REQUIRE(device.wait(ended, 1, std::chrono::seconds(60)).ok());
    }
    CHECK(ended.size() == 5);
    CHECK(device.in_flight() == 3);  // 3, 4 and 5 still own their buffers

    // The next batch of smaller reads begins at once; nothing of the old one is counted for it.
    const AlignedBuffer small(8 * 4_KiB);
    REQUIRE(device.submit(reads_of_parts(file, 8, small, 100)).ok());
    ended.clear();
    while (ended.size() < 8) {
      REQUIRE(device.wait(ended, 1, std::chrono::seconds(60)).ok());
    }
    CHECK(std::all_of(ended.begin(), ended.end(),
                      [](auto& end) { return end.tag >= 100 && end.status.ok(); }));
    CHECK(filled_with(small.bytes(), 5));
    CHECK(device.in_flight() == 3);
    script.release();
    ended = wait_all(device);
    REQUIRE(ended.size() == 3);
    for (const IoCompletion& end : ended) {
      CHECK(end.status.ok());
      CHECK(filled_with(buffer.bytes().subspan(end.tag * 32_KiB, 32_KiB), 5, end.tag * 32_KiB));
    }
  });
}

TEST_CASE("A device is destroyed safely with completions held back") {
  for (const BackEnd& back_end : all_back_ends()) {
    CAPTURE(back_end.name);
    auto script = std::make_shared<FaultScript>();
    auto device = std::make_unique<FaultyDevice>(back_end.open(8), script);
    const FileHandle file = make_file(*device, "segment", 64_KiB, 5);
    script->add({.target = FaultTarget::read, .action = FaultAction::hold, .from_then_on = true});
    const AlignedBuffer buffer(64_KiB);
    REQUIRE(device->submit(reads_of_parts(file, 4, buffer)).ok());
    device.reset();
    CHECK(script->injected() == 4);
  }
}

TEST_CASE("A failed data_sync is reported once and not tried again") {
  on_every_back_end([](Device& device, FaultScript& script) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 5);
    script.add({.target = FaultTarget::data_sync, .error_number = EIO});
    CHECK(device.run(sync_request(file)).error().kind() == ErrorKind::io);
    CHECK(script.operations(FaultTarget::data_sync) == 1);
    CHECK(device.run(sync_request(file)).ok());
    CHECK(script.operations(FaultTarget::data_sync) == 2);
    CHECK(device.stats().syncs == 2);
    CHECK(device.stats().errors == 1);
  });
}

TEST_CASE("A full disk is out_of_space, and works again when there is room") {
  on_every_back_end([](Device& device, FaultScript& script) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 5);
    script.add({.target = FaultTarget::write,
                .action = FaultAction::tear,
                .from_then_on = true,
                .error_number = ENOSPC,
                .bytes = 8_KiB});
    script.add({.target = FaultTarget::allocate, .error_number = ENOSPC});
    const AlignedBuffer buffer(64_KiB);
    CHECK(device.run(write_request(file, 64_KiB, buffer)).error().kind() ==
          ErrorKind::out_of_space);
    CHECK(device.allocate(file, 1_MiB).error().kind() == ErrorKind::out_of_space);
    script.clear();
    CHECK(device.run(write_request(file, 64_KiB, buffer)).ok());
    CHECK(device.allocate(file, 1_MiB).ok());
  });
}

TEST_CASE("A request that can't be handed over ends as a failed request of its batch") {
  on_every_back_end([](Device& device, FaultScript& script) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 5);
    script.add({.target = FaultTarget::submission, .nth = 2, .error_number = ENOMEM});
    const AlignedBuffer buffer(3 * 4_KiB);
    REQUIRE(device.submit(reads_of_parts(file, 3, buffer)).ok());
    CHECK(device.in_flight() == 3);
    const std::vector<IoCompletion> ended = wait_all(device);
    REQUIRE(ended.size() == 3);
    for (const IoCompletion& end : ended) {
      CHECK(end.status.ok() == (end.tag != 1));
    }
  });
}

TEST_CASE("An over-reported read fails, a flipped bit passes: checksums are for those above") {
  on_every_back_end([](Device& device, FaultScript& script) {
    const FileHandle file = make_file(device, "segment", 64_KiB, 5);
    const AlignedBuffer buffer(8_KiB);
    script.add({.target = FaultTarget::read, .action = FaultAction::overreport});
    CHECK(device.run(read_request(file, 0, buffer)).error().kind() == ErrorKind::io);
    script.add({.target = FaultTarget::read, .action = FaultAction::flip});
    CHECK(device.run(read_request(file, 0, buffer)).ok());
    CHECK_FALSE(filled_with(buffer.bytes(), 5));
    CHECK(device.run(read_request(file, 0, buffer)).ok());
    CHECK(filled_with(buffer.bytes(), 5));
  });
}

}  // namespace

}  // namespace kvstrata::storage
