#include <doctest/doctest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "storage/recovery/recover.h"
#include "support.h"

using namespace kvstrata;
using namespace kvstrata::storage;
using namespace kvstrata::storage::testing;

namespace {

/// Takes the index away from a closed store.
void lose_index(const Shelf& shelf) {
  std::filesystem::remove_all(shelf.directory() + "/index");
}

/// Closes the shelf, recovers, opens it again.
RecoveryReport recover(Shelf& shelf) {
  shelf.close();
  std::uint64_t told = 0;
  const auto report = recover_store(shelf.options(),
                                    [&](std::string_view, std::uint64_t done, std::uint64_t total) {
                                      CHECK(done <= total);
                                      ++told;
                                    });
  REQUIRE_MESSAGE(report.ok(), (report ? "" : report.error().message()));
  CHECK(told > 0);
  shelf.reopen();
  return *report;
}

std::uint64_t old_files(const Shelf& shelf) {
  std::uint64_t count = 0;
  for (const std::string& name : files_in(shelf.directory() + "/segments")) {
    count += name.ends_with(".old") ? 1 : 0;
  }
  return count;
}

// Ends with 0 if recovery says which limit is too low, 2 if it says anything else.
const ChildRole recovers_with_few_files(
    "recovers with few files", [](const std::vector<std::string>& arguments) {
      const rlimit few{100, 100};
      setrlimit(RLIMIT_NOFILE, &few);
      StoreOptions options = Shelf::small_options();
      options.directory = arguments.at(0);
      const auto report = recover_store(options, [](std::string_view, auto, auto) {});
      const bool told = !report && report.error().message().find("ulimit -n") != std::string::npos;
      std::_Exit(told ? 0 : 2);
    });

}  // namespace

TEST_CASE("A recovery that may not open all segments says so, and changes nothing") {
  Shelf shelf;
  shelf.put_chain(0, 99);
  shelf.close();
  lose_index(shelf);
  {
    ChildProcess child("recovers with few files", {shelf.directory()});
    CHECK(child.wait() == 0);
  }
  CHECK(old_files(shelf) == 0);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit few{100, limit.rlim_max};  // what it may raise by itself
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK(recover(shelf).recovered_blocks == 100);
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("Recovery brings every block back bit by bit after the index was lost") {
  Shelf shelf;
  shelf.put_chain(0, 99);
  shelf.put(100, {.bytes = 600_KiB});  // several extents
  shelf.put(101, {.bytes = 0});
  shelf.put(102, {.pinned = true});
  shelf.close();
  lose_index(shelf);
  const RecoveryReport report = recover(shelf);
  CHECK(report.recovered_blocks == 103);
  CHECK(report.damaged + report.incomplete + report.refused + report.nameless == 0);
  for (int n = 0; n < 100; ++n) CHECK(shelf.intact(n));
  CHECK(shelf.intact(100, 600_KiB));
  CHECK(shelf.intact(101, 0));
  CHECK(shelf.entry(5)->parent == shelf.key(4).digest);
  CHECK(shelf.entry(102)->pinned);
  CHECK(old_files(shelf) == 0);
  CHECK(shelf->stats().aside_bytes == 0);
}

TEST_CASE("Recovered blocks have their codec tables, by their new ids") {
  Shelf shelf;
  const ByteVector content = content_of(7, 5000);
  const auto table = shelf->add_table(shelf.ns(), content);
  REQUIRE(table.ok());
  shelf.put(1, {.table = *table, .codec = 2});
  shelf.close();
  lose_index(shelf);
  shelf.reopen();
  REQUIRE(shelf->add_table(shelf.ns(), content_of(8, 100)).ok());  // takes the old id
  CHECK(recover(shelf).recovered_blocks == 1);
  REQUIRE(shelf.intact(1));
  CHECK(shelf.entry(1)->codec == 2);
  const auto restored = shelf->table(shelf.ns(), shelf.entry(1)->table);
  REQUIRE(restored.ok());
  CHECK(*restored == content);
}

TEST_CASE("What was stored since the index was lost is kept as it is") {
  Shelf shelf;
  shelf.put_chain(0, 9, {.bytes = 8_KiB});
  shelf.close();
  lose_index(shelf);
  shelf.reopen();
  shelf.put(3, {.bytes = 8_KiB, .codec = 3});
  const RecoveryReport report = recover(shelf);
  CHECK(report.recovered_blocks == 9);
  CHECK(report.present == 1);
  CHECK(shelf.entry(3)->codec == 3);
  for (int n = 0; n < 10; ++n) CHECK(shelf.intact(n, 8_KiB));
}

TEST_CASE("Recovery of a store that lost nothing does nothing, however often") {
  Shelf shelf;
  shelf.put_chain(0, 9);
  const std::uint64_t live_bytes = shelf->stats().live_bytes;
  for (int round = 0; round < 2; ++round) {
    const RecoveryReport report = recover(shelf);
    CHECK(report.segments == 0);
    CHECK(report.recovered_blocks == 0);
    CHECK(shelf->stats().live_bytes == live_bytes);
    CHECK(shelf->stats().blocks == 10);
  }
}

TEST_CASE("A26: damaged and foreign files are left out of a recovery, and named by their count") {
  Shelf shelf;
  for (int n = 0; n < 100; ++n) shelf.put(n);
  const IndexEntry frame = *shelf.entry(10);
  const IndexEntry head = *shelf.entry(20);
  const std::string frame_path = segment_path(shelf, frame.where.segment);
  const std::string head_path = segment_path(shelf, head.where.segment);
  const std::string cut = segment_path(shelf, shelf.entry(99)->where.segment);
  const std::string segments = shelf.directory() + "/segments/";
  shelf.close();
  damage(frame_path, frame.where.offset + 8_KiB);
  damage(head_path, head.where.offset + 100);
  std::filesystem::resize_file(cut, 4096);  // its superblock is left
  std::ofstream(segments + "00009999.seg").close();
  std::ofstream(segments + "notes.txt") << "not ours";
  std::filesystem::create_directory(segments + "00008888.seg");
  std::filesystem::create_symlink("/etc/passwd", segments + "00007777.seg");
  lose_index(shelf);
  const RecoveryReport report = recover(shelf);
  CHECK(report.foreign_segments == 1);  // the empty one; others were never put aside
  CHECK(report.damaged == 1);
  CHECK(report.damaged_pages == 1);
  CHECK(report.recovered_blocks >= 80);
  CHECK(shelf->stats().blocks == report.recovered_blocks);
  for (int n = 0; n < 100; ++n) CHECK((!shelf.has(n) || shelf.intact(n)));
  CHECK_FALSE(shelf.has(10));
  CHECK_FALSE(shelf.has(20));
  CHECK(shelf.intact(19));
  CHECK(std::filesystem::exists(segments + "notes.txt"));
  CHECK(std::filesystem::exists(segments + "00008888.seg"));
  CHECK(std::filesystem::is_symlink(segments + "00007777.seg"));
  const auto audit = shelf->audit();
  REQUIRE(audit.ok());
  CHECK(audit->wrong_segments == 0);
  CHECK(audit->blocks_found == report.recovered_blocks);
  CHECK(audit->bytes_found == shelf->stats().live_bytes);
  CHECK(audit->foreign_files ==
        std::vector<std::string>{"00007777.seg", "00008888.seg", "notes.txt"});
  CHECK(audit->missing_files.empty());
  CHECK(recover(shelf).recovered_blocks == 0);
}

TEST_CASE("Records of a segment's earlier content are not recovered") {
  Shelf shelf;
  for (int n = 0; n < 3000; ++n) shelf.put(n);  // three times the budget
  const int there = shelf.count(0, 2999);
  CHECK(there < 1000);
  shelf.close();
  lose_index(shelf);
  const RecoveryReport report = recover(shelf);
  // Dropped blocks whose segment was not written again come back; those that were overwritten
  // can't.
  CHECK(report.recovered_blocks < 1100);
  for (int n = 0; n < 3000; ++n) CHECK((!shelf.has(n) || shelf.intact(n)));
  CHECK(shelf.intact(2999));
  CHECK(shelf.disk_usage() <= 64_MiB);
}

TEST_CASE("Blocks of an earlier weight epoch stay lost") {
  Shelf shelf;
  shelf.put(1);
  REQUIRE(shelf->bump_weight_epoch("tenant", "weights").ok());
  NamespaceSpec spec = a_namespace();
  spec.weight_epoch = 1;
  REQUIRE(shelf->register_namespace(spec).ok());
  shelf.close();
  lose_index(shelf);
  const RecoveryReport report = recover(shelf);
  CHECK(report.outdated == 1);
  CHECK(report.recovered_blocks == 0);
  CHECK(shelf->weight_epoch("tenant", "weights") == 1);
}

TEST_CASE("A smaller budget recovers what was stored last") {
  StoreOptions options = Shelf::small_options();
  options.disk_budget_bytes = 128_MiB;
  Shelf shelf(options);
  for (int n = 0; n < 1500; ++n) shelf.put(n);
  shelf.close();
  lose_index(shelf);
  shelf.options().disk_budget_bytes = 64_MiB;
  const RecoveryReport report = recover(shelf);
  CHECK(report.recovered_blocks > 700);
  CHECK(shelf.intact(1499));
  CHECK(shelf.disk_usage() <= 64_MiB);
}

TEST_CASE("A store in use is not recovered") {
  Shelf shelf;
  const auto report =
      recover_store(shelf.options(), [](std::string_view, std::uint64_t, std::uint64_t) {});
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().kind() == ErrorKind::locked);
}
