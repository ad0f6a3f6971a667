#include "tools/kvstrata/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace kvstrata::tool {

namespace {

// The format allows 100 MB, which as JSON would take GBs; 4 MiB take 0.3 at most, and name some
// 30,000 tensors.
constexpr std::uint64_t header_bytes_max = 4_MiB;
constexpr std::size_t dimensions_max = 16;

Error corrupt(const std::string& path, const std::string& what) {
  return {ErrorKind::corrupt, path + " is no safetensors file: " + what};
}

Error no_header(const std::string& path, const std::string& what) {
  return corrupt(path, what + "; is it scalars without a header, say --dtype");
}

Result<std::shared_ptr<const std::byte>> map_file(const std::string& path, std::uint64_t& bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Error(ErrorKind::io, path + ": " + std::strerror(errno));
  struct stat status = {};
  void* memory = MAP_FAILED;
  if (::fstat(file, &status) == 0 && status.st_size > 0) {
    bytes = static_cast<std::uint64_t>(status.st_size);
    memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  }
  const int error = errno;
  ::close(file);
  if (status.st_size == 0) return no_header(path, "it is empty");
  if (memory == MAP_FAILED) return Error(ErrorKind::io, path + ": " + std::strerror(error));
  return std::shared_ptr<const std::byte>(
      static_cast<const std::byte*>(memory),
      [memory, size = bytes](const std::byte*) { ::munmap(memory, size); });
}

std::uint64_t scalar_bits(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 64;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 32;
  if (dtype == "BF16" || dtype == "F16" || dtype == "I16" || dtype == "U16") return 16;
  if (dtype.starts_with("F8_") || dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 8;
  return 0;
}

/// What is wrong with the entry, or nullptr after filling `tensor`; `data` is what follows the
/// header.
const char* read_tensor(const nlohmann::json& entry, ByteView data, Tensor& tensor) {
  const auto dtype = entry.find("dtype"), shape = entry.find("shape");
  const auto range = entry.find("data_offsets");
  if (dtype == entry.end() || shape == entry.end() || range == entry.end()) {
    return "it lacks dtype, shape or data_offsets";
  }
  if (!dtype->is_string() || !shape->is_array() || shape->size() > dimensions_max ||
      !range->is_array() || range->size() != 2 || !(*range)[0].is_number_unsigned() ||
      !(*range)[1].is_number_unsigned()) {
    return "dtype, shape or data_offsets is of another type";
  }
  tensor.dtype = dtype->get<std::string>();
  const std::uint64_t bits = scalar_bits(tensor.dtype);  // 0: of a dtype that is not known here
  std::uint64_t bytes = bits / 8;
  for (const nlohmann::json& size : *shape) {
    if (!size.is_number_unsigned()) return "its shape is no list of lengths";
    tensor.shape.push_back(size.get<std::uint64_t>());
    if (__builtin_mul_overflow(bytes, tensor.shape.back(), &bytes)) return "its shape is too large";
  }
  const auto first = (*range)[0].get<std::uint64_t>(), last = (*range)[1].get<std::uint64_t>();
  if (first > last || last > data.size()) return "its data lies outside of the file";
  if (bits != 0 && last - first != bytes) return "its data and its shape differ in length";
  tensor.data = data.subspan(first, last - first);
  return nullptr;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  std::uint64_t bytes = 0;
  KV_ASSIGN(file.memory_, map_file(path, bytes));
  std::uint64_t header_bytes = 0;
  if (bytes < sizeof header_bytes) return no_header(path, "it is shorter than a length");
  std::memcpy(&header_bytes, file.memory_.get(), sizeof header_bytes);
  if (header_bytes > header_bytes_max || header_bytes > bytes - sizeof header_bytes) {
    return no_header(path, "its header is longer than the file or 4 MiB");
  }
  const auto* const text = reinterpret_cast<const char*>(file.memory_.get()) + sizeof header_bytes;
  const nlohmann::json header = nlohmann::json::parse(text, text + header_bytes, nullptr, false);
  if (!header.is_object()) return no_header(path, "its header is no JSON object");
  const std::uint64_t before = sizeof header_bytes + header_bytes;
  const ByteView data(file.memory_.get() + before, bytes - before);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    Tensor tensor;
    tensor.name = name;
    if (const char* fault = read_tensor(entry, data, tensor)) {
      return corrupt(path, "tensor '" + name + "': " + fault);
    }
    file.tensors_.push_back(std::move(tensor));
  }
  std::ranges::sort(file.tensors_, {}, [](const Tensor& tensor) {
    return std::pair(tensor.data.data(), std::string_view(tensor.name));
  });
  return file;
}

const Tensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &Tensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace kvstrata::tool
