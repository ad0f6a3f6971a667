#include "tests/storage/device/support.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "kvstrata/check.h"
#include "storage/device/memory_device.h"
#include "storage/device/posix_directory.h"
#include "storage/device/psync_device.h"
#include "storage/device/uring_device.h"

namespace kvstrata::storage::testing {

namespace {

/// The pattern's word at `at`, a multiple of 8.
std::uint64_t pattern(std::uint64_t seed, std::uint64_t at) {
  std::uint64_t x = (seed * 0x9E3779B97F4A7C15) ^ (at / 8 * 0xD1B54A32D192ED03);
  x ^= x >> 29;
  return x * 0xBF58476D1CE4E5B9;
}

BackEnd uring_back_end(const std::string& name, bool single_issuer, bool register_resources) {
  auto directory = std::make_shared<TempDirectory>();
  auto open = [=](std::size_t queue_depth) {
    auto opened = PosixDirectory::open(directory->path(), true, nullptr);
    return UringDevice::open(opened.value(), {.queue_depth = queue_depth,
                                              .single_issuer = single_issuer,
                                              .register_resources = register_resources})
        .value();
  };
  return {name, open, directory};
}

BackEnd psync_back_end() {
  auto directory = std::make_shared<TempDirectory>();
  auto open = [=](std::size_t queue_depth) {
    return open_device({.directory = directory->path(),
                        .kind = DeviceKind::psync,
                        .queue_depth = queue_depth},
                       nullptr)
        .value();
  };
  return {"psync", open, directory};
}

BackEnd memory_back_end() {
  auto disk = std::make_shared<MemoryDisk>(256_MiB);
  auto open = [=](std::size_t queue_depth) -> std::unique_ptr<Device> {
    return std::make_unique<MemoryDevice>(disk, queue_depth);
  };
  return {"memory", open, nullptr};
}

}  // namespace

TempDirectory::TempDirectory() {
  std::string pattern = std::filesystem::temp_directory_path() / "kvstrata-device-XXXXXX";
  KV_CHECK(::mkdtemp(pattern.data()) != nullptr, "no temporary directory");
  path_ = pattern;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<BackEnd> disk_back_ends() {
  std::vector<BackEnd> all;
  all.push_back(uring_back_end("io_uring", true, true));
  all.push_back(uring_back_end("io_uring of an older kernel", false, true));
  all.push_back(uring_back_end("io_uring unregistered", true, false));
  all.push_back(psync_back_end());
  return all;
}

std::vector<BackEnd> all_back_ends() {
  std::vector<BackEnd> all = disk_back_ends();
  all.push_back(memory_back_end());
  return all;
}

void fill(MutableBytes bytes, std::uint64_t seed) {
  KV_CHECK(bytes.size() % 8 == 0, "patterns are made of words");
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    store_le(&bytes[i], pattern(seed, i));
  }
}

bool filled_with(ByteView bytes, std::uint64_t seed, std::uint64_t skip) {
  KV_CHECK(bytes.size() % 8 == 0 && skip % 8 == 0, "patterns are made of words");
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    if (load_le<std::uint64_t>(&bytes[i]) != pattern(seed, skip + i)) {
      return false;
    }
  }
  return true;
}

FileHandle make_file(Device& device, const std::string& name, std::uint64_t bytes,
                     std::uint64_t seed) {
  const FileHandle file = device.open(name, true).value();
  device.allocate(file, bytes).value();
  const AlignedBuffer content(bytes);
  fill(content.bytes(), seed);
  device.run(write_request(file, 0, content)).value();
  return file;
}

std::vector<IoCompletion> wait_all(Device& device) {
  std::vector<IoCompletion> ended;
  while (device.in_flight() > 0) {
    device.wait(ended, device.in_flight(), std::chrono::seconds(60)).value();
  }
  return ended;
}

IoRequest read_request(FileHandle file, std::uint64_t offset, const AlignedBuffer& buffer,
                       std::uint64_t tag) {
  return {.operation = IoOperation::read,
          .file = file,
          .offset = offset,
          .buffer = buffer.data(),
          .bytes = buffer.size(),
          .tag = tag};
}

IoRequest write_request(FileHandle file, std::uint64_t offset, const AlignedBuffer& buffer,
                        std::uint64_t tag) {
  IoRequest request = read_request(file, offset, buffer, tag);
  request.operation = IoOperation::write;
  return request;
}

std::vector<IoRequest> reads_of_parts(FileHandle file, std::size_t count,
                                      const AlignedBuffer& buffer, std::uint64_t tag) {
  std::vector<IoRequest> parts(count, read_request(file, 0, buffer));
  const std::uint64_t bytes = buffer.size() / count;
  for (std::size_t i = 0; i < count; ++i) {
    parts[i].offset = i * bytes;
    parts[i].buffer += i * bytes;
    parts[i].bytes = bytes;
    parts[i].tag = tag + i;
  }
  return parts;
}

IoRequest sync_request(FileHandle file, std::uint64_t tag) {
  return {.operation = IoOperation::data_sync, .file = file, .tag = tag};
}

std::uint64_t test_seed(const char* test) {
  const char* given = std::getenv("KVSTRATA_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("%s: KVSTRATA_SEED=%llu\n", test, static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

int in_child(const std::function<int()>& child) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  KV_CHECK(pid >= 0, "fork failed");
  if (pid == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not doctest's, which would report the parent's test
    ::_exit(child());
  }
  int status = 0;
  KV_CHECK(::waitpid(pid, &status, 0) == pid, "waitpid failed");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool forbid(int system_call, int error_number, unsigned flags) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(system_call), 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JA | BPF_K, flags == 0 ? 0U : 1U, 0, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error_number)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace kvstrata::storage::testing
