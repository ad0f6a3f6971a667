// Codec files from anybody: a file is an error, or its parts cover the decoded file and every run
// of every frame lies inside it. The input is damage to a good file, whose sums are made right
// again, so that what lies behind them is reached; and a file by itself.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "kvstrata/check.h"
#include "kvstrata/checksum.h"
#include "tools/kvstrata/container/container.h"
#include "tools/kvstrata/container/encode.h"

using namespace kvstrata;
using namespace kvstrata::tool;

namespace {

/// A file in memory, by a name that can be opened.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("codec-file", MFD_CLOEXEC)) {
    KV_CHECK(fd_ >= 0, "no memory file");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  void write(ByteView bytes) {
    KV_CHECK(ftruncate(fd_, 0) == 0, "not cut");
    KV_CHECK(pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
             "not written");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// A codec file of K and V of 40 tokens in frames of 16, and of bytes.
ByteVector good_file() {
  std::string header = R"({"k.0":{"dtype":"BF16","shape":[2,2,40,8],"data_offsets":[0,2560]},)"
                       R"("v.0":{"dtype":"BF16","shape":[2,2,40,8],"data_offsets":[2560,5120]}})";
  ByteVector dump;
  append_le<std::uint64_t>(dump, header.size());
  const ByteView text = as_bytes(header);
  dump.insert(dump.end(), text.begin(), text.end());
  for (std::uint32_t i = 0; i < 2560; ++i) {
    append_le(dump, static_cast<std::uint16_t>(0x3f00 + i * 2654435761U % 256));
  }
  MemoryFile in;
  in.write(dump);
  std::string folder = (std::filesystem::temp_directory_path() / "codec-fuzz-XXXXXX").string();
  KV_CHECK(mkdtemp(folder.data()) != nullptr, "no directory");
  EncodeOptions options;
  options.dump.block_tokens = 16;
  const auto report = encode_file(in.path(), folder + "/out", options, {});
  KV_CHECK(report.ok(), "a good dump was refused");
  std::ifstream file(folder + "/out", std::ios::binary);
  const std::string encoded(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove_all(folder);
  const ByteView bytes = as_bytes(encoded);
  return {bytes.begin(), bytes.end()};
}

void make_sums_right(ByteVector& bytes) {
  ContainerHeader header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.magic = container_magic;
  header.version = container_version;
  header.container_bytes = bytes.size();
  if (header.description_bytes <= bytes.size() - sizeof header) {
    header.description_xxh3 =
        xxh3(ByteView(bytes).subspan(sizeof header, header.description_bytes));
  }
  header.header_xxh3 = header_checksum(header);
  std::memcpy(bytes.data(), &header, sizeof header);
}

void check(MemoryFile& file, ByteView bytes) {
  if (bytes.empty()) return;
  file.write(bytes);
  const auto container = Container::open(file.path());
  if (!container) return;
  const std::uint64_t file_bytes = container->header().file_bytes;
  std::uint64_t covered = 0;
  const Status walked = container->for_each_frame([&](const StoredFrame& frame) -> Status {
    ByteVector payload(frame.info.raw_bytes);
    KV_TRY(container->decode(frame, payload));
    return frame.part.for_each_run(
        frame.number, [&](std::uint64_t at, std::uint64_t payload_at, std::uint64_t length) {
          KV_CHECK(at <= file_bytes && length <= file_bytes - at, "a run beyond the file");
          KV_CHECK(payload_at <= payload.size() && length <= payload.size() - payload_at,
                   "a run beyond the payload");
          covered += length;
          return Status();
        });
  });
  if (walked) KV_CHECK(covered == file_bytes, "frames that do not cover the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ByteVector good = good_file();
  static MemoryFile file;
  const ByteView input(reinterpret_cast<const std::byte*>(data), size);
  ByteVector alone(input.begin(), input.end());
  make_sums_right(alone);
  check(file, alone);
  ByteVector damaged = good;
  for (std::size_t i = 0; i + 2 < size && i < 30; i += 3) {
    const std::size_t at = load_le<std::uint16_t>(input.data() + i);
    // Half of the damage goes to the header and the description.
    const std::size_t reach = at % 2 == 0 ? 300 : damaged.size();
    damaged[at / 2 % reach] ^= input[i + 2];
  }
  make_sums_right(damaged);
  check(file, damaged);
  return 0;
}
