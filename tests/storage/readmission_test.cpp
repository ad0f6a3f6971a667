// A disk that failed takes blocks again only where it is the same store in the same place, and
// gives back what was written to it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "storage/device/faulty_device.h"
#include "storage/segment/segment_file.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

namespace fs = std::filesystem;

constexpr Milliseconds long_enough{60'000};

// A store with ten blocks, whose disk has just failed once and would work again.
struct FailedOnce {
  FailedOnce() : shelf(options_with(clock, script)) {
    shelf.put_chain(0, 9);
    script->add({.target = FaultTarget::write});
    CHECK_FALSE(shelf.try_put(10).ok());
    CHECK_FALSE(shelf->stats().writable);
  }

  static StoreOptions options_with(const FakeClock& clock,
                                   const std::shared_ptr<FaultScript>& script) {
    StoreOptions options = Shelf::small_options();
    options.clock = &clock;
    options.wrap_device = [script](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
      return std::make_unique<FaultyDevice>(std::move(device), script);
    };
    return options;
  }

  std::string directory() const { return shelf.directory(); }
  std::string elsewhere() const { return directory() + ".elsewhere"; }

  /// A put once the delay has passed.
  Result<IndexEntry> later_put(int n) {
    clock.advance(long_enough);
    return shelf.try_put(n);
  }
  /// The put is refused, with a reason that says `what` and that statistics repeat.
  void refuses_later(int n, const std::string& what) {
    const Result<IndexEntry> put = later_put(n);
    REQUIRE_FALSE(put.ok());
    CHECK(put.error().kind() == ErrorKind::unavailable);
    CHECK_MESSAGE(put.error().message().find(what) != std::string::npos, put.error().message());
    CHECK_FALSE(shelf->stats().writable);
    CHECK(shelf->stats().degraded.find(what) != std::string::npos);
  }
  void takes_later(int n) {
    CHECK(later_put(n).ok());
    CHECK(shelf.intact(n));
    CHECK(shelf->stats().writable);
    CHECK(shelf->stats().degraded.empty());
  }

  FakeClock clock;
  std::shared_ptr<FaultScript> script = std::make_shared<FaultScript>();
  Shelf shelf;
};

std::set<std::string> content_of_directory(const std::string& path) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path)) names.insert(entry.path());
  return names;
}

std::vector<fs::path> segment_files(const std::string& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory + "/segments")) {
    files.push_back(entry.path());
  }
  return files;
}

// In place, for the store has the file open.
void overwrite(const fs::path& file, std::uint64_t offset, const std::string& bytes) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  CHECK(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
        static_cast<ssize_t>(bytes.size()));
  ::close(fd);
}

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("A disk that failed takes blocks again when it is as it was") {
  FailedOnce failed;
  failed.takes_later(11);
}

TEST_CASE("A store that was taken away is not begun anew in its place") {
  FailedOnce failed;
  fs::rename(failed.directory(), failed.elsewhere());
  failed.refuses_later(11, "no longer at");
  CHECK_FALSE(fs::exists(failed.directory()));
  fs::create_directory(failed.directory());  // an empty mount point
  failed.refuses_later(12, "no longer at");
  CHECK(content_of_directory(failed.directory()).empty());
  fs::remove(failed.directory());
  fs::rename(failed.elsewhere(), failed.directory());
  failed.takes_later(13);
  for (int n = 0; n < 10; ++n) CHECK(failed.shelf.intact(n));
}

TEST_CASE("Another store in the place of one whose disk failed is left alone") {
  const TempDirectory made(Medium::fast);
  {
    Shelf other(made.path() + "/store", Shelf::small_options());
    other.put_chain(0, 3);
  }
  FailedOnce failed;
  fs::rename(failed.directory(), failed.elsewhere());
  fs::rename(made.path() + "/store", failed.directory());
  const auto before = content_of_directory(failed.directory());
  failed.refuses_later(11, "another store");
  CHECK(content_of_directory(failed.directory()) == before);
  fs::remove_all(failed.directory());
  fs::rename(failed.elsewhere(), failed.directory());
  failed.takes_later(12);
}

TEST_CASE("A copy of a store in its place is told from the store itself") {
  FailedOnce failed;
  fs::rename(failed.directory(), failed.elsewhere());
  fs::copy(failed.elsewhere(), failed.directory(), fs::copy_options::recursive);
  failed.refuses_later(11, "a copy, or was mounted anew");
  fs::remove_all(failed.directory());
  fs::rename(failed.elsewhere(), failed.directory());
  failed.takes_later(12);
}

TEST_CASE("A disk that lost what was synced takes no blocks") {
  FailedOnce failed;
  std::map<fs::path, std::string> were;
  for (const fs::path& file : segment_files(failed.directory())) {
    were[file] = read_file(file);
    overwrite(file, 0, std::string(were[file].size(), '\0'));
  }
  failed.refuses_later(11, "does not give back");
  for (const auto& [file, bytes] : were) overwrite(file, 0, bytes);
  failed.takes_later(12);
}

TEST_CASE("One rotten record does not keep a disk out") {
  FailedOnce failed;
  const RecordLocation last = failed.shelf.entry(9)->where;
  const auto name = segment_file_name(last.segment);
  overwrite(failed.directory() + "/segments/" + name, last.offset, std::string(100, 'x'));
  failed.takes_later(11);
  CHECK(failed.shelf.read(9).error().kind() == ErrorKind::corrupt);
  CHECK(failed.shelf.intact(8));
}

TEST_CASE("A disk whose two newest records are gone was rolled back: it takes no blocks") {
  FailedOnce failed;
  const RecordLocation before_last = failed.shelf.entry(8)->where;
  const RecordLocation last = failed.shelf.entry(9)->where;
  const std::string file =
      failed.directory() + "/segments/" + segment_file_name(before_last.segment);
  const std::string bytes = read_file(file);
  const std::uint64_t end = last.offset + last.bytes;
  overwrite(file, before_last.offset, std::string(end - before_last.offset, '\0'));
  failed.refuses_later(11, "does not give back");
  CHECK(failed.shelf.intact(7));
  overwrite(file, before_last.offset, bytes.substr(before_last.offset, end - before_last.offset));
  failed.takes_later(12);
}

TEST_CASE("One unreadable record does not keep a disk out") {
  FailedOnce failed;
  failed.script->add({.target = FaultTarget::read});
  failed.takes_later(11);
}

TEST_CASE("An identity that can't be read does not mark the index as broken") {
  FailedOnce failed;
  const std::string identity = failed.directory() + "/identity";
  const std::string were = read_file(identity);
  std::ofstream(identity).close();  // empty
  failed.refuses_later(11, "identity");
  CHECK_FALSE(fs::exists(failed.directory() + "/index/BROKEN"));
  std::ofstream(identity) << were;
  failed.takes_later(12);
}

TEST_CASE("A store without its lock file takes no blocks") {
  FailedOnce failed;
  fs::rename(failed.directory() + "/lock", failed.elsewhere());
  failed.refuses_later(11, "lock is gone");
  fs::rename(failed.elsewhere(), failed.directory() + "/lock");
  failed.takes_later(12);
}

TEST_CASE("Segment files that are gone do not keep a disk out, and their blocks are misses") {
  FailedOnce failed;
  for (const fs::path& file : segment_files(failed.directory())) fs::remove(file);
  failed.takes_later(11);
  CHECK(failed.shelf->flush().ok());
  CHECK_FALSE(failed.shelf.read(5).ok());
}

TEST_CASE("A disk that still can't be read stays out, with the error of the read") {
  FailedOnce failed;
  failed.script->add({.target = FaultTarget::read, .from_then_on = true});
  const Result<IndexEntry> put = failed.later_put(11);
  REQUIRE_FALSE(put.ok());
  CHECK(put.error().kind() == ErrorKind::io);
  failed.script->clear();
  failed.takes_later(12);
}

}  // namespace kvstrata::storage::testing
