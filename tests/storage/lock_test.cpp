// One store, one owner: whoever comes second is told at once, and nothing stale is left to clean
// up.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

ErrorKind kind_of_opening(const std::string& directory) {
  StoreOptions options = Shelf::small_options();
  options.directory = directory;
  const Result<std::unique_ptr<Store>> opened = Store::open(options);
  return opened ? ErrorKind::internal : opened.error().kind();
}

// A process that holds a store open until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& directory) : ready_(place_.path() + "/ready") {
    REQUIRE(mkfifo(ready_.c_str(), 0600) == 0);
    child_.emplace("holds a store open", std::vector{directory, ready_});
    char answer = 0;
    std::ifstream(ready_).get(answer);  // blocks until the child has opened
    REQUIRE(answer == 'y');
  }

  int pid() const { return child_->pid(); }
  void kill() { child_->kill(); }

 private:
  const TempDirectory place_;
  const std::string ready_;
  std::optional<ChildProcess> child_;
};

const ChildRole holds_a_store("holds a store open", [](const std::vector<std::string>& arguments) {
  StoreOptions options = Shelf::small_options();
  options.directory = arguments[0];
  const auto opened = Store::open(options);
  std::ofstream(arguments[1]) << (opened ? 'y' : 'n') << std::flush;
  for (;;) pause();
});

const ChildRole other_user("opens as another user", [](const std::vector<std::string>& arguments) {
  if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
  const ErrorKind kind = kind_of_opening(arguments[0]);
  const bool refused = kind == ErrorKind::locked || kind == ErrorKind::permission_denied;
  _exit(refused ? 0 : 1);
});

}  // namespace

TEST_CASE("A second owner is refused and told the first one's process id") {
  const TempDirectory place;
  const std::string directory = place.path() + "/store";
  Holder first(directory);
  StoreOptions options = Shelf::small_options();
  options.directory = directory;
  const Result<std::unique_ptr<Store>> second = Store::open(options);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().kind() == ErrorKind::locked);
  CHECK(second.error().message().find("pid " + std::to_string(first.pid())) != std::string::npos);
}

TEST_CASE("A second owner is refused in the same process too") {
  Shelf shelf;
  CHECK(kind_of_opening(shelf.directory()) == ErrorKind::locked);
  shelf.put(1);
  CHECK(shelf.intact(1));
}

TEST_CASE("A second owner is refused when it comes through a symbolic link") {
  const TempDirectory place;
  const std::string directory = place.path() + "/store";
  Holder first(directory);
  const std::string link = place.path() + "/link";
  std::filesystem::create_directory_symlink(directory, link);
  CHECK(kind_of_opening(link) == ErrorKind::locked);
  CHECK(kind_of_opening(link + "/.") == ErrorKind::locked);
}

TEST_CASE("After kill -9 of the owner the next one needs no clean-up") {
  const TempDirectory place;
  const std::string directory = place.path() + "/store";
  {
    Holder first(directory);
    first.kill();
  }
  CHECK(std::filesystem::exists(directory + "/lock"));
  Shelf next(directory, Shelf::small_options());
  next.put(1);
  CHECK(next.intact(1));
}

TEST_CASE("Another user can't open the store") {
  if (geteuid() != 0) return;  // only root can become somebody else
  const TempDirectory place;
  std::filesystem::permissions(place.path(), std::filesystem::perms::all);
  const std::string directory = place.path() + "/store";
  Holder first(directory);
  const int status = ChildProcess("opens as another user", {directory}).wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("Everything in the store is for its owner only") {
  Shelf shelf;
  shelf.put(1);
  const auto mode_of = [&](const std::string& path) {
    struct stat state{};
    REQUIRE(lstat(path.c_str(), &state) == 0);
    return state.st_mode & 0777;
  };
  CHECK(mode_of(shelf.directory()) == 0700);
  CHECK(mode_of(shelf.directory() + "/index") == 0700);
  CHECK(mode_of(shelf.directory() + "/segments") == 0700);
  CHECK(mode_of(shelf.directory() + "/identity") == 0600);
  CHECK(mode_of(shelf.directory() + "/lock") == 0600);
  CHECK(mode_of(segment_path(shelf, shelf.entry(1)->where.segment)) == 0600);
}

TEST_CASE("A store keeps its identity for ever") {
  Shelf shelf;
  const std::string id = shelf->id_hex();
  CHECK(id.size() == 32);
  shelf.reopen();
  CHECK(shelf->id_hex() == id);
  CHECK(Shelf()->id_hex() != id);
}

TEST_CASE("A store of an unknown format is refused by name, and left alone") {
  Shelf shelf;
  shelf.put(1);
  shelf.close();
  const std::string path = shelf.directory() + "/identity";
  {
    std::ofstream file(path);
    file << "kvstrata store 2\nsomething new\n";
  }
  CHECK(kind_of_opening(shelf.directory()) == ErrorKind::unsupported);
  {
    std::ofstream file(path);
    file << "not ours\n";
  }
  CHECK(kind_of_opening(shelf.directory()) == ErrorKind::corrupt);
  CHECK(files_in(shelf.directory() + "/segments").size() == 1);
}

TEST_CASE("Options that contradict each other are refused") {
  const TempDirectory place;
  const auto kind_with = [&](std::uint64_t budget, std::uint64_t segment) {
    StoreOptions options;
    options.directory = place.path() + "/store";
    options.disk_budget_bytes = budget;
    options.segment_bytes = segment;
    const auto opened = Store::open(options);
    return opened ? ErrorKind::internal : opened.error().kind();
  };
  CHECK(kind_with(63_MiB, 0) == ErrorKind::invalid_argument);
  CHECK(kind_with(64_MiB, 1_MiB + 1) == ErrorKind::invalid_argument);
  CHECK(kind_with(64_MiB, 4096) == ErrorKind::invalid_argument);
  CHECK(kind_with(64_MiB, 16_MiB) == ErrorKind::invalid_argument);
  CHECK_FALSE(std::filesystem::exists(place.path() + "/store"));
}

}  // namespace kvstrata::storage::testing
