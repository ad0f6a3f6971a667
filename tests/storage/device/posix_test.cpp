// What is particular to files of a real directory.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "storage/device/posix_directory.h"
#include "tests/storage/device/support.h"

namespace kvstrata::storage {

namespace {

using namespace testing;

TEST_CASE("Files are for their owner alone") {
  for (const BackEnd& back_end : disk_back_ends()) {
    CAPTURE(back_end.name);
    const mode_t before = ::umask(0);
    const std::unique_ptr<Device> device = back_end.open(8);
    CHECK(device->open("segment", true).ok());
    ::umask(before);
    struct stat info{};
    REQUIRE(::stat((back_end.directory->path() + "/segment").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
  }
}

TEST_CASE("Symbolic links, pipes and directories are not opened but are listed") {
  namespace fs = std::filesystem;
  for (const BackEnd& back_end : disk_back_ends()) {
    CAPTURE(back_end.name);
    const std::string path = back_end.directory->path();
    std::ofstream(path + "/plain") << "x";
    fs::create_symlink("plain", path + "/link");
    fs::create_symlink("/nowhere", path + "/dangling");
    fs::create_directory(path + "/folder");
    REQUIRE(::mkfifo((path + "/pipe").c_str(), 0600) == 0);
    const std::unique_ptr<Device> device = back_end.open(8);
    for (const std::string name : {"link", "dangling", "pipe", "folder"}) {
      CAPTURE(name);
      CHECK(device->open(name, true).error().kind() == ErrorKind::permission_denied);
    }
    CHECK(device->open("plain", false).ok());
    CHECK(device->list().value() ==
          std::vector<std::string>{"dangling", "folder", "link", "pipe", "plain"});
  }
}

TEST_CASE("A file whose end is not a whole unit is not read beyond it") {
  for (const BackEnd& back_end : disk_back_ends()) {
    CAPTURE(back_end.name);
    std::ofstream(back_end.directory->path() + "/ragged") << std::string(5000, 'x');
    const std::unique_ptr<Device> device = back_end.open(8);
    const FileHandle file = device->open("ragged", false).value();
    const AlignedBuffer buffer(8_KiB);
    CHECK(device->run(read_request(file, 0, buffer)).error().kind() == ErrorKind::io);
    IoRequest first = read_request(file, 0, buffer);
    first.bytes = 4_KiB;
    CHECK(device->run(first).ok());
  }
}

TEST_CASE("A directory that is not there, or not one, is an error that names it") {
  const TempDirectory directory;
  std::ofstream(directory.path() + "/file") << "x";
  const auto absent = open_device({.directory = directory.path() + "/absent"}, nullptr);
  CHECK(absent.error().kind() == ErrorKind::not_found);
  CHECK(absent.error().message().find("/absent") != std::string::npos);
  CHECK_FALSE(open_device({.directory = directory.path() + "/file"}, nullptr).ok());
}

TEST_CASE("A queue depth of nothing or of too much is refused") {
  const TempDirectory directory;
  for (const std::size_t depth : {std::size_t{0}, queue_depth_max + 1}) {
    CHECK(open_device({.directory = directory.path(), .queue_depth = depth}, nullptr)
              .error()
              .kind() == ErrorKind::invalid_argument);
  }
  CHECK(open_device({.directory = directory.path(), .queue_depth = queue_depth_max}, nullptr).ok());
}

TEST_CASE("A device keeps to its directory when the path is renamed") {
  const TempDirectory parent;
  const std::string path = parent.path() + "/store";
  std::filesystem::create_directory(path);
  const auto device = open_device({.directory = path}, nullptr).value();
  std::filesystem::rename(path, parent.path() + "/moved");
  std::filesystem::create_directory(path);
  CHECK(device->open("segment", true).ok());
  CHECK(std::filesystem::exists(parent.path() + "/moved/segment"));
  const auto clone = device->clone().value();
  CHECK(clone->open("segment", false).ok());
}

TEST_CASE("Buffered I/O keeps the same rules") {
  const TempDirectory directory;
  const auto device =
      open_device({.directory = directory.path(), .direct = false}, nullptr).value();
  const FileHandle file = make_file(*device, "segment", 1_MiB, 4);
  CHECK(device->run(sync_request(file)).ok());
  const AlignedBuffer buffer(1_MiB);
  CHECK(device->run(read_request(file, 0, buffer)).ok());
  CHECK(filled_with(buffer.bytes(), 4));
  CHECK_FALSE(device->run(read_request(file, 4_KiB, buffer)).ok());
}

TEST_CASE("Where the file system refuses direct I/O files are buffered, and the reason says so") {
  const TempDirectory directory;
  CHECK(in_child([&] {
          if (!forbid(__NR_openat, EINVAL, O_DIRECT)) {
            return 1;
          }
          std::string reason;
          const auto device =
              open_device({.directory = directory.path(), .kind = DeviceKind::psync}, &reason);
          if (!device || reason.find("direct I/O is not available") == std::string::npos) {
            return 2;
          }
          const FileHandle file = make_file(**device, "segment", 64_KiB, 4);
          const AlignedBuffer buffer(64_KiB);
          return (*device)->run(read_request(file, 0, buffer)).ok() &&
                         filled_with(buffer.bytes(), 4)
                     ? 0
                     : 3;
        }) == 0);
}

TEST_CASE("A device allocates also where there is no fallocate") {
  for (const BackEnd& back_end : disk_back_ends()) {
    CAPTURE(back_end.name);
    CHECK(in_child([&] {
            if (!forbid(__NR_fallocate, EOPNOTSUPP)) {
              return 1;
            }
            const std::unique_ptr<Device> device = back_end.open(8);
            const FileHandle file = device->open("segment", true).value();
            return device->allocate(file, 3_MiB).ok() && device->size(file).value() == 3_MiB ? 0
                                                                                             : 2;
          }) == 0);
  }
}

TEST_CASE("Where there is no fallocate, space is taken by writing zeros behind the end") {
  const TempDirectory directory;
  auto opened = PosixDirectory::open(directory.path(), true, nullptr).value();
  const UniqueFd file = opened->open_file("segment", true).value();
  AlignedBuffer content(8_KiB);
  fill(content.bytes(), 6);
  REQUIRE(::pwrite(file.get(), content.data(), 8_KiB, 0) == 8_KiB);
  CHECK(allocate_by_writing(file.get(), 3_MiB + 4_KiB).ok());
  CHECK(file_size(file.get()).value() == 3_MiB + 4_KiB);
  struct stat info{};
  REQUIRE(::fstat(file.get(), &info) == 0);
  CHECK(static_cast<std::uint64_t>(info.st_blocks) * 512 >= 3_MiB);
  const AlignedBuffer all(3_MiB + 4_KiB);
  REQUIRE(::pread(file.get(), all.data(), all.size(), 0) == static_cast<ssize_t>(all.size()));
  CHECK(filled_with(all.bytes().first(8_KiB), 6));
  CHECK(std::all_of(all.bytes().begin() + 8_KiB, all.bytes().end(),
                    [](std::byte b) { return b == std::byte{0}; }));
  CHECK(allocate_by_writing(file.get(), 4_KiB).ok());
  CHECK(file_size(file.get()).value() == 3_MiB + 4_KiB);
}

}  // namespace

}  // namespace kvstrata::storage
