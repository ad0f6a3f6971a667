// Safetensors files from anybody: a file is an error, or its tensors lie in it and are as long as
// their shapes say; and a dump of it is an error, or its tensors don't overlap and its parts cover
// every byte once.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "kvstrata/check.h"
#include "tests/base/seed.h"
#include "tools/kvstrata/container/dump.h"
#include "tools/kvstrata/safetensors.h"

using namespace kvstrata;
using namespace kvstrata::test;
using namespace kvstrata::tool;

namespace {

constexpr std::size_t length_bytes = 8;

struct Dtype {
  std::string_view name;
  std::uint64_t bytes;
};
/// Those that are known here.
constexpr std::array<Dtype, 16> dtypes{{{"F64", 8},
                                        {"I64", 8},
                                        {"U64", 8},
                                        {"F32", 4},
                                        {"I32", 4},
                                        {"U32", 4},
                                        {"BF16", 2},
                                        {"F16", 2},
                                        {"I16", 2},
                                        {"U16", 2},
                                        {"I8", 1},
                                        {"U8", 1},
                                        {"F8_E4M3", 1},
                                        {"F8_E5M2", 1},
                                        {"F8_", 1},
                                        {"BOOL", 1}}};

/// The name of a file with these bytes; the same one each time.
std::string file_of(ByteView bytes) {
  static const int fd = memfd_create("safetensors", MFD_CLOEXEC);
  KV_CHECK(fd >= 0 && ftruncate(fd, 0) == 0, "no memory file");
  KV_CHECK(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
           "not written");
  return "/proc/self/fd/" + std::to_string(fd);
}

void check_length(const Tensor& tensor) {
  const auto dtype = std::ranges::find(dtypes, tensor.dtype, &Dtype::name);
  if (dtype == dtypes.end()) return;
  std::uint64_t bytes = dtype->bytes;
  for (const std::uint64_t size : tensor.shape) {
    KV_CHECK(!__builtin_mul_overflow(bytes, size, &bytes), "a shape beyond 64 bits");
  }
  KV_CHECK(tensor.data.size() == bytes, "a tensor of another length than its shape");
}

void check_tensors(const SafetensorsFile& file, ByteView bytes) {
  std::uint64_t begin = length_bytes + load_le<std::uint64_t>(bytes.data());
  for (const Tensor& tensor : file.tensors()) {
    const std::uint64_t at = file.offset(tensor);
    KV_CHECK(at >= begin, "tensors in the header, or out of order");
    KV_CHECK(at <= bytes.size() && tensor.data.size() <= bytes.size() - at,
             "a tensor beyond the file");
    KV_CHECK(std::ranges::equal(tensor.data, bytes.subspan(at, tensor.data.size())), "other bytes");
    KV_CHECK(file.find(tensor.name) == &tensor, "a tensor that is not found");
    check_length(tensor);
    begin = at;
  }
}

void check_no_overlap(const SafetensorsFile& file) {
  std::uint64_t end = 0;
  for (const Tensor& tensor : file.tensors()) {
    if (tensor.data.empty()) continue;
    KV_CHECK(file.offset(tensor) >= end, "tensors that overlap");
    end = file.offset(tensor) + tensor.data.size();
  }
}

void check_covered(const Dump& dump, std::size_t file_bytes) {
  std::vector<bool> covered(file_bytes);
  for (const Part& part : dump.parts) {
    for (std::uint64_t frame = 0; frame < part.frames(); ++frame) {
      const std::uint64_t payload_bytes = part.frame_shape(frame).raw_bytes();
      const Status walked = part.for_each_run(
          frame, [&](std::uint64_t at, std::uint64_t payload_at, std::uint64_t length) -> Status {
            KV_CHECK(at <= file_bytes && length <= file_bytes - at, "a run beyond the file");
            KV_CHECK(payload_at <= payload_bytes && length <= payload_bytes - payload_at,
                     "a run beyond the payload");
            for (std::uint64_t i = at; i < at + length; ++i) {
              KV_CHECK(!covered[i], "a byte that is in two parts");
              covered[i] = true;
            }
            return {};
          });
      KV_CHECK(walked.ok(), "a frame that can't be walked through");
    }
  }
  KV_CHECK(std::ranges::find(covered, false) == covered.end(), "a byte that is in no part");
}

/// The header of an input that has one, else nothing.
std::string_view header_of(std::string_view input) {
  if (input.size() < length_bytes) return {};
  const auto bytes = load_le<std::uint64_t>(as_bytes(input).data());
  return bytes > input.size() - length_bytes ? "" : input.substr(length_bytes, bytes);
}

/// The number as text; now and then another one, or none.
std::string number(Random& random, std::uint64_t right) {
  if (!random.one_in(40)) return std::to_string(right);
  switch (random.below(5)) {
    case 0: return random.one_in(2) ? "null" : "2.0";
    case 1: return std::to_string(right + 1);
    case 2: return std::to_string(static_cast<std::int64_t>(right) - 1);
    case 3: return std::to_string(std::uint64_t{1} << random.below(64));
    default: return std::to_string(random.bits());
  }
}

/// A header whose tensors follow one another, but for what number() says.
std::string made_header(Random& random, std::size_t& data_bytes) {
  static constexpr const char* names[] = {"k.0", "v.0", "k.1", "v.1", "blocks", "__metadata__"};
  std::string text;
  std::vector<std::uint64_t> shape;
  Dtype dtype = dtypes[0];
  std::size_t name = random.below(std::size(names));
  for (std::uint64_t left = random.below(6); left > 0; --left) {
    // Else that of the tensor before, as a K and its V have it.
    if (shape.empty() || random.one_in(2)) {
      const std::size_t dimensions = random.one_in(2) ? 4 + random.below(2) : random.below(6);
      shape.assign(dimensions, 2);
      for (std::uint64_t& size : shape) size = random.one_in(30) ? 0 : 1 + random.below(3);
      dtype = random.one_in(8) ? Dtype{"F4", 3} : dtypes[random.below(dtypes.size())];
    }
    std::uint64_t bytes = dtype.bytes;
    std::string sizes;
    for (const std::uint64_t size : shape) {
      bytes *= size;
      sizes += (sizes.empty() ? "" : ",") + number(random, size);
    }
    const std::uint64_t begin = data_bytes;
    data_bytes += bytes;
    text += (text.empty() ? "\"" : ",\"") + std::string(names[name]) + R"(":{"dtype":")" +
            std::string(dtype.name) + R"(","shape":[)" + sizes + R"(],"data_offsets":[)" +
            number(random, begin) + "," + number(random, data_bytes) + "]}";
    if (random.one_in(12)) data_bytes += random.below(9);  // a gap
    if (random.one_in(24)) data_bytes -= std::min<std::size_t>(data_bytes, random.below(9));
    name = random.one_in(8) ? random.below(std::size(names)) : (name + 1) % std::size(names);
  }
  return "{" + text + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  const std::string path = file_of(bytes);
  const auto file = SafetensorsFile::open(path);
  if (file) check_tensors(*file, bytes);
  const auto dump = Dump::open(path, {.dtype = {}, .block_tokens = 2});
  KV_CHECK(file || !dump, "a dump of what is no safetensors file");
  if (!dump) return 0;
  check_no_overlap(*file);
  check_covered(*dump, size);
  return 0;
}

/// Random bytes have no header: most inputs get one that is nearly right, and its length.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned int seed) {
  Random random(seed);
  if (random.one_in(8)) return LLVMFuzzerMutate(data, size, size_max);
  const std::string_view before = header_of({reinterpret_cast<const char*>(data), size});
  std::size_t data_bytes = size - std::min(size, length_bytes + before.size());
  std::string text(before);
  if (before.empty() || random.one_in(2)) {
    data_bytes = 0;
    text = made_header(random, data_bytes);
  }
  if (random.one_in(4)) {
    const std::size_t text_bytes = text.size();
    text.resize(text_bytes + 64);
    text.resize(
        LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), text_bytes, text.size()));
  }
  if (length_bytes + text.size() > size_max) return LLVMFuzzerMutate(data, size, size_max);
  const std::uint64_t length = text.size();
  std::memcpy(data, &length, sizeof length);
  std::ranges::copy(text, data + length_bytes);
  const std::size_t data_at = length_bytes + text.size();
  data_bytes = std::min(data_bytes, size_max - data_at);
  std::memset(data + data_at, 'x', data_bytes);
  return data_at + data_bytes;
}
