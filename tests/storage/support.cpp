#include "tests/storage/support.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "storage/segment/record.h"
#include "storage/segment/segment_file.h"
#include "storage/store_directory.h"

namespace kvstrata::storage::testing {

namespace {

constexpr const char* child_variable = "KVSTRATA_TEST_CHILD";

std::map<std::string, ChildRole::Play>& roles() {
  static std::map<std::string, ChildRole::Play> all;
  return all;
}

std::filesystem::path place_of(Medium medium) {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(memory, error);
  const bool has_room = !error && space.available > 1_GiB;
  return medium == Medium::fast && has_room ? memory : std::filesystem::temp_directory_path();
}

}  // namespace

TempDirectory::TempDirectory(Medium medium) {
  std::string name = (place_of(medium) / "kvstrata-store-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempDirectory::~TempDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

StoreOptions Shelf::small_options() {
  StoreOptions options;
  options.disk_budget_bytes = 64_MiB;
  options.segment_bytes = 1_MiB;
  return options;
}

Shelf::Shelf(StoreOptions options, Medium medium)
    : own_directory_(std::make_shared<TempDirectory>(medium)), options_(std::move(options)) {
  options_.directory = own_directory_->path() + "/store";
  open();
}

Shelf::Shelf(const std::string& directory, StoreOptions options) : options_(std::move(options)) {
  options_.directory = directory;
  open();
}

void Shelf::open() {
  Result<std::unique_ptr<Store>> opened = Store::open(options_);
  REQUIRE_MESSAGE(opened.ok(), (opened ? "" : opened.error().message()));
  store_ = std::move(*opened);
  const Result<NamespaceId> ns = store_->register_namespace(a_namespace());
  REQUIRE_MESSAGE(ns.ok(), (ns ? "" : ns.error().message()));
  ns_ = *ns;
}

void Shelf::reopen() {
  close();
  open();
}

BlockKey Shelf::key(int n, std::uint16_t group) const {
  BlockKey key{ns_, {}, group};
  const std::uint64_t mixed = (static_cast<std::uint64_t>(n) + 1) * 0x9e3779b97f4a7c15ULL;
  store_le(key.digest.bytes.data(), mixed);
  store_le(key.digest.bytes.data() + 16, static_cast<std::int64_t>(n));
  return key;
}

Awaited<Result<IndexEntry>> Shelf::start_put(int n, const Put& how) {
  AppendRequest request;
  request.key = key(n);
  if (how.parent) request.parent = key(*how.parent).digest;
  request.identity = identity_of(n);
  const ByteVector content = content_of(n, how.bytes);
  request.frame = FrameBuffer(how.bytes);
  std::ranges::copy(content, request.frame.data());
  request.frame_bytes = how.bytes;
  request.raw_bytes = 2 * how.bytes;
  request.payload_xxh3 = checksum(content);
  request.codec = how.codec;
  request.table = how.table;
  request.expires_unix_ms = how.expires_unix_ms;
  request.pinned = how.pinned;
  Awaited<Result<IndexEntry>> awaited;
  if (Status status = store_->append(std::move(request), awaited.setter()); !status) {
    awaited.setter()(status.error());
  }
  return awaited;
}

Result<IndexEntry> Shelf::try_put(int n, const Put& how) {
  Awaited<Result<IndexEntry>> awaited = start_put(n, how);
  REQUIRE(store_->flush().ok());
  return awaited.get();
}

void Shelf::put(int n, const Put& how) {
  const Result<IndexEntry> entry = try_put(n, how);
  REQUIRE_MESSAGE(entry.ok(), (entry ? "" : entry.error().message()));
}

void Shelf::put_chain(int first, int last, const Put& how) {
  std::vector<Awaited<Result<IndexEntry>>> all;
  for (int n = first; n <= last; ++n) {
    Put one = how;
    if (n > first) one.parent = n - 1;
    all.push_back(start_put(n, one));
  }
  REQUIRE(store_->flush().ok());
  for (auto& awaited : all) REQUIRE(awaited.get().ok());
}

std::optional<IndexEntry> Shelf::entry(int n) {
  const BlockKey wanted = key(n);
  std::optional<IndexEntry> entry;
  REQUIRE(store_->find({&wanted, 1}, {&entry, 1}).ok());
  return entry;
}

bool Shelf::has(int n) {
  return entry(n).has_value();
}

int Shelf::count(int first, int last) {
  int found = 0;
  for (int n = first; n <= last; ++n) found += has(n) ? 1 : 0;
  return found;
}

Result<ReadRecord> Shelf::read(int n) {
  const std::optional<IndexEntry> found = entry(n);
  if (!found) return Error(ErrorKind::not_found, "not in the index");
  Awaited<Result<ReadRecord>> record;
  // std::function wants a copyable argument list only; the setter moves the record on.
  store_->read(key(n), *found, record.setter());
  return record.get();
}

bool Shelf::intact(int n, std::uint64_t bytes) {
  const Result<ReadRecord> record = read(n);
  return record && std::ranges::equal(record->frame, content_of(n, bytes)) &&
         std::ranges::equal(record->identity, identity_of(n));
}

RemovalCounts Shelf::erase(int n, bool with_descendants, bool also_pinned) {
  const BlockKey wanted = key(n);
  const Result<RemovalCounts> counts = store_->erase({&wanted, 1}, with_descendants, also_pinned);
  REQUIRE(counts.ok());
  return *counts;
}

std::uint64_t Shelf::disk_usage() const {
  return disk_bytes(options_.directory);
}

ByteVector content_of(int n, std::uint64_t bytes) {
  ByteVector content(bytes);
  std::uint64_t state = static_cast<std::uint64_t>(n) * 0x2545f4914f6cdd1dULL + 1;
  for (std::uint64_t at = 0; at < bytes; at += sizeof state) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(content.data() + at, &state, std::min<std::uint64_t>(sizeof state, bytes - at));
  }
  return content;
}

ByteVector identity_of(int n) {
  ByteVector identity;
  for (int i = 0; i < 16; ++i) append_le(identity, static_cast<std::uint32_t>(n * 16 + i));
  return identity;
}

NamespaceSpec a_namespace(std::string_view tenant) {
  NamespaceSpec spec;
  spec.tenant = tenant;
  spec.model.fingerprint = "weights";
  return spec;
}

ChildRole::ChildRole(const char* name, Play play) {
  roles()[name] = play;
}

void play_child_role() {
  const char* joined = std::getenv(child_variable);  // NOLINT(concurrency-mt-unsafe)
  if (joined == nullptr) return;
  std::vector<std::string> words;
  std::istringstream lines(joined);
  for (std::string line; std::getline(lines, line);) words.push_back(line);
  KV_CHECK(!words.empty() && roles().contains(words.front()), "a role that exists");
  const std::vector<std::string> arguments(words.begin() + 1, words.end());
  roles()[words.front()](arguments);
  std::_Exit(0);
}

ChildProcess::ChildProcess(const std::string& role, const std::vector<std::string>& arguments) {
  std::string words = role;
  for (const std::string& argument : arguments) words += "\n" + argument;
  REQUIRE(setenv(child_variable, words.c_str(), 1) == 0);  // NOLINT(concurrency-mt-unsafe)
  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    execl("/proc/self/exe", "child", nullptr);
    _exit(127);
  }
  unsetenv(child_variable);  // NOLINT(concurrency-mt-unsafe)
}

ChildProcess::~ChildProcess() {
  kill();
}

int ChildProcess::wait() {
  int status = 0;
  REQUIRE(waitpid(pid_, &status, 0) == pid_);
  pid_ = 0;
  return status;
}

void ChildProcess::kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void die_here() {
  ::kill(getpid(), SIGKILL);
  for (;;) pause();
}

void damage(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(fd >= 0);
  std::vector<unsigned char> content(bytes);
  REQUIRE(pread(fd, content.data(), bytes, static_cast<off_t>(offset)) ==
          static_cast<ssize_t>(bytes));
  for (unsigned char& byte : content) byte = static_cast<unsigned char>(~byte);
  REQUIRE(pwrite(fd, content.data(), bytes, static_cast<off_t>(offset)) ==
          static_cast<ssize_t>(bytes));
  REQUIRE(fsync(fd) == 0);
  ::close(fd);
}

std::string segment_path(const Shelf& shelf, SegmentId segment) {
  return shelf.directory() + "/segments/" + segment_file_name(segment);
}

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    names.push_back(file.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string read_example(const std::string& page, std::string_view name) {
  std::ifstream file(std::string(KVSTRATA_SOURCE_ROOT) + "/" + page);
  REQUIRE_MESSAGE(file, page);
  std::string hex;
  bool named = false;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      if (inside) return hex;
      inside = named;
    } else if (inside) {
      for (const char c : line.substr(0, line.find('#'))) {
        if (c != ' ') hex += c;
      }
    } else {
      named = named || line == "Example: `" + std::string(name) + "`";
    }
  }
  return hex;
}

}  // namespace kvstrata::storage::testing
