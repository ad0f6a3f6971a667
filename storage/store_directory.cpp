#include "storage/store_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>

namespace kvstrata::storage {

namespace {

constexpr std::string_view identity_title = "kvstrata store ";
constexpr std::string_view identity_version = "1";
constexpr std::string_view identity_uuid = "uuid ";
constexpr std::size_t identity_bytes_max = 256;

Status make_directory(const std::string& path) {
  // Parents too, so that a fresh machine needs no preparation; an existing one is left as it is.
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error_number = errno;
      struct stat state;
      if (stat(part.c_str(), &state) != 0 || !S_ISDIR(state.st_mode)) {
        return error_from_errno(error_number, "creating directory " + part);
      }
    }
    if (at == std::string::npos) return {};
  }
}

Result<OwnedFd> open_file(const std::string& path, int flags) {
  OwnedFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (fd.get() < 0) return error_from_errno(errno, "opening " + path);
  return fd;
}

Result<std::string> read_small_file(int fd, const std::string& path) {
  std::array<char, identity_bytes_max> text;
  const ssize_t bytes = pread(fd, text.data(), text.size(), 0);
  if (bytes < 0) return error_from_errno(errno, "reading " + path);
  return std::string(text.data(), static_cast<std::size_t>(bytes));
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  const ssize_t bytes = pwrite(fd, text.data(), text.size(), 0);
  if (bytes < 0) return error_from_errno(errno, "writing " + path);
  if (static_cast<std::size_t>(bytes) != text.size()) {
    return Error(ErrorKind::out_of_space, "writing " + path + ": the file system is full");
  }
  return {};
}

Error locked_by(int fd, const std::string& path) {
  const Result<std::string> holder = read_small_file(fd, path);
  std::string message = path + " is in use by another process";
  if (holder) {
    const std::string_view pid = std::string_view(*holder).substr(0, holder->find('\n'));
    if (!pid.empty()) message += " (pid " + std::string(pid) + ")";
  }
  return {ErrorKind::locked, message + "; a store has one owner at a time"};
}

Result<OwnedFd> take_lock(const std::string& directory) {
  const std::string path = directory + "/lock";
  KV_ASSIGN(OwnedFd fd, open_file(path, O_RDWR | O_CREAT));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return locked_by(fd.get(), directory);
    return error_from_errno(errno, "locking " + path);
  }
  // The number is for people only; nobody decides by it. A full disk must not keep a store closed.
  if (ftruncate(fd.get(), 0) == 0) {
    (void)write_all(fd.get(), std::to_string(getpid()) + "\n", path);
  }
  return fd;
}

std::optional<StoreId> parse_hex(std::string_view text) {
  StoreId id;
  if (text.size() != 2 * id.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.size(); ++i) {
    std::uint8_t value = 0;
    const char* first = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    if (error != std::errc() || end != first + 2) return std::nullopt;
    id[i] = static_cast<std::byte>(value);
  }
  return id;
}

// "kvstrata store 1\nuuid <32 hex digits>\n"
Result<StoreId> parse_identity(std::string_view text, const std::string& path) {
  const Error corrupt(ErrorKind::corrupt, path + " is not a store's identity file");
  if (!text.starts_with(identity_title)) return corrupt;
  text.remove_prefix(identity_title.size());
  const std::size_t line_end = text.find('\n');
  if (line_end == std::string_view::npos) return corrupt;
  if (text.substr(0, line_end) != identity_version) {
    return Error(ErrorKind::unsupported,
                 path + ": store format " + std::string(text.substr(0, line_end)) +
                     " is not known to this version; use the version that wrote it, or an empty "
                     "directory");
  }
  text.remove_prefix(line_end + 1);
  if (!text.starts_with(identity_uuid) || !text.ends_with('\n')) return corrupt;
  text.remove_prefix(identity_uuid.size());
  text.remove_suffix(1);
  const std::optional<StoreId> id = parse_hex(text);
  if (!id) return corrupt;
  return *id;
}

Status write_identity(const std::string& directory, const StoreId& id) {
  const std::string path = directory + "/identity";
  const std::string draft = path + ".new";
  {
    KV_ASSIGN(const OwnedFd fd, open_file(draft, O_WRONLY | O_CREAT | O_TRUNC));
    const std::string text = std::string(identity_title) + std::string(identity_version) + "\n" +
                             std::string(identity_uuid) + hex_of(id) + "\n";
    KV_TRY(write_all(fd.get(), text, draft));
    if (fsync(fd.get()) != 0) return error_from_errno(errno, "syncing " + draft);
  }
  if (rename(draft.c_str(), path.c_str()) != 0) return error_from_errno(errno, "renaming " + draft);
  return sync_directory(directory);
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

Result<StoreDirectory> StoreDirectory::open(const std::string& path) {
  if (path.empty()) return Error(ErrorKind::invalid_argument, "the store's directory is not named");
  KV_TRY(make_directory(path));
  KV_ASSIGN(OwnedFd lock, take_lock(path));
  StoreDirectory directory(path, std::move(lock));
  KV_TRY(make_directory(directory.segments_path()));
  KV_TRY(make_directory(directory.index_path()));
  KV_TRY(directory.load_or_create_identity());
  return directory;
}

Status StoreDirectory::load_or_create_identity() {
  const std::string path = path_ + "/identity";
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() >= 0) {
    KV_ASSIGN(const std::string text, read_small_file(fd.get(), path));
    KV_ASSIGN(id_, parse_identity(text, path));
    return {};
  }
  if (errno != ENOENT) return error_from_errno(errno, "opening " + path);
  KV_CHECK(sodium_init() >= 0, "libsodium can't start");
  randombytes_buf(id_.data(), id_.size());
  return write_identity(path_, id_);
}

std::string hex_of(const StoreId& id) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : id) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

namespace {

/// Which file, on which file system, through which mount.
struct FilePlace {
  std::uint64_t inode = 0, mount = 0;
  std::uint32_t device_major = 0, device_minor = 0;

  friend bool operator==(const FilePlace&, const FilePlace&) = default;
};

Result<FilePlace> place_of(int directory_fd, const std::string& path, int flags) {
  struct statx state = {};
  if (statx(directory_fd, path.c_str(), flags, STATX_INO | STATX_MNT_ID, &state) != 0) {
    return error_from_errno(errno, "looking for the store's lock file");
  }
  // Kernels before 5.8 don't tell the mount.
  const std::uint64_t mount = (state.stx_mask & STATX_MNT_ID) != 0 ? state.stx_mnt_id : 0;
  return FilePlace{state.stx_ino, mount, state.stx_dev_major, state.stx_dev_minor};
}

}  // namespace

Status StoreDirectory::check_in_place() const {
  const auto unavailable = [&](const std::string& what) {
    return Error(ErrorKind::unavailable, what);
  };
  const std::string path = path_ + "/identity";
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) {
    const int error_number = errno;
    if (error_number != ENOENT && error_number != ENOTDIR) {
      return error_from_errno(error_number, "opening " + path);
    }
    return unavailable("the store is no longer at " + path_ +
                       " (unmounted or moved?); bring it back there, or restart kvstratad to begin "
                       "a new one");
  }
  KV_ASSIGN(const std::string text, read_small_file(fd.get(), path));
  const Result<StoreId> id = parse_identity(text, path);
  if (!id) return unavailable(id.error().message());
  if (*id != id_) {
    return unavailable("another store (" + hex_of(*id) + ") lies at " + path_ + " now, not " +
                       hex_of(id_) + "; bring that back, or restart kvstratad to use the other");
  }
  KV_ASSIGN(const FilePlace held, place_of(lock_.get(), "", AT_EMPTY_PATH));
  const Result<FilePlace> there = place_of(AT_FDCWD, path_ + "/lock", 0);
  if (!there) {
    return there.error().kind() == ErrorKind::not_found
               ? unavailable(path_ +
                             "/lock is gone, so two daemons could use the store; restart "
                             "kvstratad")
               : there.error();
  }
  if (*there == held) return {};
  return unavailable("the store at " + path_ +
                     " is a copy, or was mounted anew since it was opened; restart kvstratad to "
                     "use it");
}

std::string StoreDirectory::id_hex() const {
  return hex_of(id_);
}

namespace {
std::string broken_mark(const StoreDirectory& directory) {
  return directory.index_path() + "/BROKEN";
}
}  // namespace

void mark_index_broken(const StoreDirectory& directory) {
  (void)open_file(broken_mark(directory), O_WRONLY | O_CREAT);
}

bool index_marked_broken(const StoreDirectory& directory) {
  return access(broken_mark(directory).c_str(), F_OK) == 0;
}

std::uint64_t disk_bytes(const std::string& path) {
  constexpr std::uint64_t block_unit = 512;  // of st_blocks, whatever the file system's block
  struct stat state;
  if (lstat(path.c_str(), &state) != 0) return 0;
  if (S_ISREG(state.st_mode)) return static_cast<std::uint64_t>(state.st_blocks) * block_unit;
  if (!S_ISDIR(state.st_mode)) return 0;
  std::uint64_t total = static_cast<std::uint64_t>(state.st_blocks) * block_unit;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    total += disk_bytes(it->path().string());
  }
  return total;
}

Status sync_directory(const std::string& directory) {
  KV_ASSIGN(const OwnedFd fd, open_file(directory, O_RDONLY | O_DIRECTORY));
  if (fsync(fd.get()) != 0) return error_from_errno(errno, "syncing directory " + directory);
  return {};
}

}  // namespace kvstrata::storage
