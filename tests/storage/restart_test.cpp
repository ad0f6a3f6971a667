// Opening reads a few rows, whatever is stored; and no number of restarts makes the store outgrow
// its budget.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "storage/device/recording_device.h"
#include "storage/store_directory.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

using Kind = RecordedOperation::Kind;

void put_many(Shelf& shelf, int first, int count, const Put& how = {}) {
  for (int n = first; n < first + count; n += 100) {
    std::vector<Awaited<Result<IndexEntry>>> puts;
    for (int i = n; i < std::min(n + 100, first + count); ++i)
      puts.push_back(shelf.start_put(i, how));
    REQUIRE(shelf->flush().ok());
    for (auto& put : puts) REQUIRE(put.get().ok());
  }
}

const ChildRole fills_and_dies("fills and dies", [](const std::vector<std::string>& arguments) {
  Shelf shelf(arguments[0], Shelf::small_options());
  put_many(shelf, std::stoi(arguments[1]), 800);
  die_here();
});

}  // namespace

TEST_CASE("Opening reads at most the superblock of the open segment, however much is stored") {
  const auto recording = std::make_shared<Recording>();
  StoreOptions options = Shelf::small_options();
  options.wrap_device = [recording](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
    return std::make_unique<RecordingDevice>(std::move(device), recording);
  };
  Shelf shelf(options);
  for (const int blocks : {10, 600, 3000}) {
    put_many(shelf, blocks, blocks, {.bytes = 2000});
    shelf.close();
    recording->clear();
    shelf.reopen();
    const StoreStats stats = shelf->stats();
    CHECK(stats.blocks >= static_cast<std::uint64_t>(blocks));
    CHECK(recording->count(Kind::read) <= 1);
    CHECK(recording->count(Kind::open) <= 2);
    CHECK(recording->count(Kind::write) == 0);
  }
}

TEST_CASE("A reopened store goes on in its half-filled segment") {
  Shelf shelf;
  shelf.put(1);
  const IndexEntry first = *shelf.entry(1);
  shelf.reopen();
  shelf.put(2);
  const IndexEntry second = *shelf.entry(2);
  CHECK(second.where.segment == first.where.segment);
  CHECK(second.where.generation == first.where.generation);
  CHECK(second.where.offset == first.where.offset + first.where.bytes);
}

TEST_CASE("The directory stays within the budget over many fills") {
  for (const std::uint64_t record : {60_KiB, 3_KiB, 700_KiB}) {
    CAPTURE(record);
    Shelf shelf;
    for (int round = 0; round < 3; ++round) {
      put_many(shelf, round * 20'000, static_cast<int>(60_MiB / std::max(record, 8_KiB)),
               {.bytes = record});
      CHECK(shelf.disk_usage() <= 64_MiB);
    }
    const StoreStats stats = shelf->stats();
    CHECK(stats.segment_bytes + stats.index_bytes <= stats.budget_bytes);
    CHECK(stats.index_bytes <= 16_MiB);
  }
}

TEST_CASE("Restarts after kill -9 leave nothing behind that is not counted") {
  const TempDirectory place(Medium::fast);
  const std::string directory = place.path() + "/store";
  for (int round = 0; round < 5; ++round) {
    const int status =
        ChildProcess("fills and dies", {directory, std::to_string(round * 1000)}).wait();
    REQUIRE(WIFSIGNALED(status));
    CHECK(disk_bytes(directory) <= 64_MiB);
  }
  Shelf shelf(directory, Shelf::small_options());
  const StoreStats stats = shelf->stats();
  CHECK(stats.segments == files_in(directory + "/segments").size());
  CHECK(static_cast<int>(stats.blocks) == shelf.count(0, 5000));
}

TEST_CASE("A smaller budget at the next start evicts down to it") {
  StoreOptions options = Shelf::small_options();
  options.disk_budget_bytes = 128_MiB;
  Shelf shelf(options);
  put_many(shelf, 0, 1500);
  CHECK(shelf.disk_usage() > 80_MiB);
  shelf.options().disk_budget_bytes = 64_MiB;
  shelf.reopen();
  put_many(shelf, 5000, 20);
  CHECK(shelf.disk_usage() <= 64_MiB);
  CHECK(shelf.count(5000, 5019) == 20);
  CHECK(shelf.count(0, 1499) > 500);
  CHECK(shelf.intact(1499));
}

TEST_CASE("An audit finds what the store counts, whatever happened to it") {
  Shelf shelf;
  const auto table = shelf->add_table(shelf.ns(), content_of(1, 3000));
  REQUIRE(table.ok());
  const auto counts_are_right = [&] {
    const auto audit = shelf->audit();
    REQUIRE(audit.ok());
    CHECK(audit->wrong_segments == 0);
    CHECK(audit->blocks_found == shelf->stats().blocks);
    CHECK(audit->bytes_found == shelf->stats().live_bytes);
    CHECK(audit->disk_bytes <= audit->budget_bytes);
    CHECK(audit->missing_files.empty());
    return audit->blocks_found;
  };
  CHECK(counts_are_right() == 0);
  for (int n = 0; n < 1500; n += 10) {
    shelf.put_chain(n, n + 9, {.bytes = n % 30 == 0 ? 200_KiB : 40_KiB, .table = *table});
    if (n % 50 == 0) shelf.erase(n, true);
  }
  CHECK(counts_are_right() > 200);
  shelf.reopen();
  counts_are_right();
  const std::string lost = segment_path(shelf, shelf.entry(1499)->where.segment);
  std::filesystem::remove(lost);
  const auto audit = shelf->audit();
  REQUIRE(audit.ok());
  CHECK(audit->missing_files == std::vector{std::filesystem::path(lost).filename().string()});
}

TEST_CASE("A27: a smaller budget with smaller segments takes new blocks at once") {
  StoreOptions options = Shelf::small_options();
  options.disk_budget_bytes = 96_MiB;
  options.segment_bytes = 0;  // 6 MiB, then 4 MiB
  Shelf shelf(options);
  // Chains over the borders of segments: each segment has parents of blocks that live elsewhere.
  for (int n = 0; n < 1500; n += 30) shelf.put_chain(n, n + 29, {.bytes = 128_KiB});
  shelf.options().disk_budget_bytes = 64_MiB;
  shelf.reopen();
  shelf.put_chain(5000, 5015, {.bytes = 128_KiB});
  CHECK(shelf.disk_usage() <= 64_MiB);
  for (int n = 5000; n < 5016; ++n) CHECK(shelf.intact(n, 128_KiB));
}

TEST_CASE(
    "Another segment size at the next start replaces the old segments as they are reclaimed") {
  Shelf shelf;
  put_many(shelf, 0, 600);
  shelf.options().segment_bytes = 2_MiB;
  shelf.reopen();
  CHECK(shelf.count(0, 599) == 600);
  put_many(shelf, 1000, 1600);
  CHECK(shelf.disk_usage() <= 64_MiB);
  CHECK(shelf.count(0, 599) == 0);
  CHECK(shelf.intact(2599));
  for (const std::string& name : files_in(shelf.directory() + "/segments")) {
    CHECK(std::filesystem::file_size(shelf.directory() + "/segments/" + name) == 2_MiB);
  }
}

TEST_CASE("A broken index is moved aside, the store starts empty and says why, once") {
  Shelf shelf;
  put_many(shelf, 0, 500);
  shelf.close();
  for (const std::string& name : files_in(shelf.directory() + "/index")) {
    if (name.starts_with("MANIFEST")) damage(shelf.directory() + "/index/" + name, 0, 64);
  }
  shelf.reopen();
  CHECK(shelf->opened_empty_because().find("index.bad-") != std::string::npos);
  CHECK(shelf->stats().blocks == 0);
  CHECK(shelf->stats().aside_bytes > 30_MiB);
  CHECK(shelf.disk_usage() <= 64_MiB);
  shelf.put(1);
  CHECK(shelf.intact(1));
  // The old files are given up only as their space is needed, and then they go.
  put_many(shelf, 1000, 1000);
  CHECK(shelf->stats().aside_bytes == 0);
  CHECK(shelf.disk_usage() <= 64_MiB);
  shelf.reopen();
  CHECK(shelf->opened_empty_because().empty());
  CHECK(shelf.intact(1999));
}

TEST_CASE("A missing index is noticed: its segments are put aside, not taken for new ones") {
  Shelf shelf;
  put_many(shelf, 0, 50);
  shelf.close();
  std::filesystem::remove_all(shelf.directory() + "/index");
  shelf.reopen();
  CHECK_FALSE(shelf->opened_empty_because().empty());
  CHECK(shelf->stats().blocks == 0);
  put_many(shelf, 100, 50);
  CHECK(shelf.count(100, 149) == 50);
  int old = 0;
  for (const std::string& name : files_in(shelf.directory() + "/segments")) {
    old += name.ends_with(".old") ? 1 : 0;
  }
  CHECK(old == 4);
}

TEST_CASE("An index that belongs to another store is not used") {
  Shelf one;
  Shelf two;
  one.put(1);
  two.put(2);
  one.close();
  two.close();
  std::filesystem::remove_all(two.directory() + "/index");
  std::filesystem::copy(one.directory() + "/index", two.directory() + "/index");
  two.reopen();
  CHECK(two->opened_empty_because().find("another store") != std::string::npos);
  CHECK_FALSE(two.has(1));
}

TEST_CASE("Foreign things in the directory are left alone") {
  Shelf shelf;
  shelf.put(1);
  shelf.close();
  const std::string segments = shelf.directory() + "/segments/";
  std::ofstream(segments + "notes.txt") << "mine";
  std::ofstream(segments + "00000099.seg");
  std::ofstream(segments + "1.seg") << "not a segment name";
  std::filesystem::create_directory(segments + "00000098.seg");
  std::filesystem::create_symlink("/etc/hostname", segments + "00000097.seg");
  shelf.reopen();
  CHECK(shelf.intact(1));
  put_many(shelf, 10, 900);
  CHECK(shelf.intact(909));
  for (const char* name : {"notes.txt", "00000099.seg", "1.seg", "00000098.seg", "00000097.seg"}) {
    CHECK(std::filesystem::exists(std::filesystem::symlink_status(segments + name)));
  }
  CHECK(std::filesystem::file_size(segments + "00000099.seg") == 0);
}

}  // namespace kvstrata::storage::testing
