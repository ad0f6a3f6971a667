#include "storage/aside_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "storage/store_directory.h"

namespace kvstrata::storage {

namespace {

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  return names;
}

std::int64_t modified_ns(const std::string& path) {
  struct stat state;
  return lstat(path.c_str(), &state) == 0
             ? state.st_mtim.tv_sec * 1'000'000'000 + state.st_mtim.tv_nsec
             : 0;
}

// The segment an old file held, from its name; nothing for names that are not ours.
std::optional<SegmentId> old_segment(std::string_view name) {
  if (!name.ends_with(old_segment_suffix)) return std::nullopt;
  name.remove_suffix(old_segment_suffix.size());
  return parse_segment_file_name(name);
}

Status rename_file(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return error_from_errno(errno, "renaming " + from);
  return {};
}

}  // namespace

AsideFiles AsideFiles::scan(const std::string& directory) {
  AsideFiles aside;
  const auto add = [&](const std::string& path) {
    aside.files_.push_back({path, disk_bytes(path), modified_ns(path)});
    aside.bytes_ += aside.files_.back().bytes;
  };
  for (const std::string& name : names_in(directory)) {
    if (name.starts_with(bad_index_prefix)) add(directory + "/" + name);
  }
  const std::string segments = directory + "/segments";
  for (const std::string& name : names_in(segments)) {
    if (old_segment(name)) add(segments + "/" + name);
  }
  std::ranges::sort(aside.files_, {}, &File::modified_ns);
  return aside;
}

void AsideFiles::remove_oldest() {
  KV_CHECK(!files_.empty(), "nothing lies aside");
  const File file = files_.front();
  files_.pop_front();
  // What can't be removed stops counting: it would only stop the store from ever writing again.
  std::error_code error;
  std::filesystem::remove_all(file.path, error);
  bytes_ -= file.bytes;
}

Result<std::string> set_store_aside(const std::string& directory, std::uint64_t unix_ms) {
  const std::string index = directory + "/index";
  const std::string bad = directory + "/" + std::string(bad_index_prefix) + std::to_string(unix_ms);
  KV_TRY(rename_file(index, bad));
  if (mkdir(index.c_str(), 0700) != 0) return error_from_errno(errno, "creating " + index);
  const std::string segments = directory + "/segments";
  for (const std::string& name : names_in(segments)) {
    if (!parse_segment_file_name(name)) continue;
    const std::string path = segments + "/" + name;
    if (std::error_code error;
        !std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) {
      continue;
    }
    KV_TRY(rename_file(path, path + std::string(old_segment_suffix)));
  }
  KV_TRY(sync_directory(segments));
  KV_TRY(sync_directory(directory));
  return bad;
}

std::uint32_t first_unused_segment(const std::string& directory) {
  std::uint32_t next = 1;
  for (const std::string& name : names_in(directory + "/segments")) {
    std::optional<SegmentId> segment = parse_segment_file_name(name);
    if (!segment) segment = old_segment(name);
    if (segment) next = std::max(next, segment->value + 1);
  }
  return next;
}

}  // namespace kvstrata::storage
