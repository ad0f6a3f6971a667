#include "tools/kvstrata/container/dump.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "codec/geometry.h"
#include "tools/kvstrata/container/format.h"
#include "tools/kvstrata/safetensors.h"

namespace kvstrata::tool {

namespace {

constexpr std::uint64_t payload_bytes_wanted = 256_MiB;
constexpr std::uint32_t frame_tokens_least = 16;

std::optional<DType> dtype_of(std::string_view name) {
  if (name == "BF16") return DType::bf16;
  if (name == "F16") return DType::fp16;
  if (name == "F8_E4M3") return DType::fp8_e4m3;
  if (name == "F8_E5M2") return DType::fp8_e5m2;
  if (name == "I8") return DType::int8;
  if (name == "F32") return DType::fp32;
  return std::nullopt;
}

bool fits(const Tensor& tensor) {
  return std::ranges::all_of(tensor.shape,
                             [](std::uint64_t size) { return size > 0 && size <= 0xffffffff; });
}

/// Bytes of the file that belong to a part.
struct Extent {
  std::uint64_t at, bytes;
  const std::string* name;
};

/// Turns tensors into parts.
class Partition {
 public:
  Partition(const SafetensorsFile& tensors, const DumpOptions& options)
      : tensors_(tensors), options_(options) {
    for (const Tensor& tensor : tensors.tensors()) by_name_.emplace(tensor.name, &tensor);
  }

  /// Parts and the gaps between them.
  Result<std::vector<Part>> parts(std::uint64_t file_bytes) {
    for (const Tensor& tensor : tensors_.tensors()) {
      if (tensor.name.size() > name_bytes_max) {
        return Error(ErrorKind::too_large, "it names a tensor with more than 65535 bytes");
      }
      if (tensor.data.empty()) continue;
      extents_.push_back({tensors_.offset(tensor), tensor.data.size(), &tensor.name});
      if (!add_block(tensor) && !add_apart(tensor)) add_values(tensor);
    }
    KV_TRY(add_gaps(file_bytes));
    if (parts_.size() > parts_max) {
      return Error(ErrorKind::too_large, "it holds more than a million tensors");
    }
    std::ranges::sort(parts_, {}, &Part::at);
    return std::move(parts_);
  }

 private:
  /// Chooses the tokens of a frame, and adds the part if it is one that a block can be.
  bool add_kv(Part part, std::uint64_t tokens) {
    part.tokens = static_cast<std::uint32_t>(tokens);
    part.frame_tokens = std::min(part.tokens, options_.block_tokens);
    while (part.frame_tokens > frame_tokens_least &&
           part.frame_shape(0).raw_bytes() > payload_bytes_wanted) {
      part.frame_tokens /= 2;
    }
    if (!codec::check_shape(part.frame_shape(0))) return false;
    parts_.push_back(std::move(part));
    return true;
  }

  bool add_block(const Tensor& tensor) {
    const auto dtype = dtype_of(tensor.dtype);
    if (!dtype || tensor.shape.size() != 5 || tensor.shape[1] != 2 || !fits(tensor)) return false;
    Part part;
    part.kind = PartKind::blocks;
    part.dtype = *dtype;
    part.at = tensors_.offset(tensor);
    part.bytes = tensor.data.size();
    part.layers = static_cast<std::uint32_t>(tensor.shape[0]);
    part.kv_heads = static_cast<std::uint32_t>(tensor.shape[2]);
    part.head_dim_k = part.head_dim_v = static_cast<std::uint32_t>(tensor.shape[4]);
    part.name = tensor.name;
    return add_kv(std::move(part), tensor.shape[3]);
  }

  static bool is_side(const Tensor& tensor) {
    return dtype_of(tensor.dtype) && tensor.shape.size() == 4 && fits(tensor) &&
           (tensor.name.starts_with("k.") || tensor.name.starts_with("v."));
  }

  /// V of a K and the other way round, if both make blocks together.
  const Tensor* other_side(const Tensor& tensor) const {
    const char other = tensor.name.front() == 'k' ? 'v' : 'k';
    const auto found = by_name_.find(other + tensor.name.substr(1));
    if (found == by_name_.end()) return nullptr;
    const Tensor& it = *found->second;
    const bool alike = is_side(it) && it.dtype == tensor.dtype &&
                       std::equal(it.shape.begin(), it.shape.begin() + 3, tensor.shape.begin());
    return alike ? &it : nullptr;
  }

  bool add_apart(const Tensor& tensor) {
    if (!is_side(tensor)) return false;
    if (paired_.contains(tensor.name)) return true;
    const Tensor *k = &tensor, *v = other_side(tensor);
    if (v != nullptr && tensor.name.front() == 'v') std::swap(k, v);
    Part part;
    part.kind = PartKind::apart;
    part.dtype = *dtype_of(k->dtype);
    part.at = tensors_.offset(*k);
    part.bytes = k->data.size();
    part.layers = static_cast<std::uint32_t>(k->shape[0]);
    part.kv_heads = static_cast<std::uint32_t>(k->shape[1]);
    part.head_dim_k = static_cast<std::uint32_t>(k->shape[3]);
    part.name = k->name;
    if (v != nullptr) {
      part.at_v = tensors_.offset(*v);
      part.bytes += v->data.size();
      part.head_dim_v = static_cast<std::uint32_t>(v->shape[3]);
      part.name_v = v->name;
    }
    if (!add_kv(std::move(part), k->shape[2])) return false;
    if (v != nullptr) paired_.insert({k->name, v->name});
    return true;
  }

  void add_values(const Tensor& tensor) {
    const auto dtype = dtype_of(tensor.dtype);
    Part part;
    part.kind = dtype ? PartKind::values : PartKind::bytes;
    part.dtype = dtype.value_or(DType::int8);
    part.at = tensors_.offset(tensor);
    part.bytes = tensor.data.size();
    part.name = tensor.name;
    parts_.push_back(std::move(part));
  }

  /// What no tensor covers: the header at least.
  Status add_gaps(std::uint64_t file_bytes) {
    std::ranges::sort(extents_, {}, &Extent::at);
    const std::string nothing;
    extents_.push_back({file_bytes, 0, &nothing});
    std::uint64_t at = 0;
    const std::string* before = &nothing;
    for (const Extent& extent : extents_) {
      if (extent.at < at) {
        return Error(ErrorKind::corrupt,
                     "its tensors '" + *before + "' and '" + *extent.name + "' overlap");
      }
      if (extent.at > at) {
        Part gap;
        gap.at = at;
        gap.bytes = extent.at - at;
        parts_.push_back(std::move(gap));
      }
      at = extent.at + extent.bytes;
      before = extent.name;
    }
    return {};
  }

  const SafetensorsFile& tensors_;
  const DumpOptions& options_;
  std::map<std::string_view, const Tensor*> by_name_;
  std::set<std::string_view> paired_;  ///< names of tensors that lie in a part together
  std::vector<Extent> extents_;
  std::vector<Part> parts_;
};

}  // namespace

Result<Dump> Dump::open(const std::string& path, const DumpOptions& options) {
  KV_ASSIGN(InputFile file, InputFile::open(path));
  if (options.dtype) {
    Part whole;
    whole.kind = PartKind::values;
    whole.dtype = *options.dtype;
    whole.bytes = file.bytes();
    return Dump{std::move(file), {std::move(whole)}};
  }
  std::uint32_t magic = 0;
  if (file.bytes() >= sizeof magic) {
    KV_TRY(file.read_at(0, std::as_writable_bytes(std::span(&magic, 1))));
  }
  if (magic == container_magic) {
    return Error(
        ErrorKind::invalid_argument,
        path + " is a codec file already; `kvstrata codec decode` gives back what it holds");
  }
  KV_ASSIGN(const SafetensorsFile tensors, SafetensorsFile::open(path));
  auto parts = Partition(tensors, options).parts(file.bytes());
  if (!parts) return parts.error().with_context(path);
  return Dump{std::move(file), *std::move(parts)};
}

Status Dump::read(const Part& part, std::uint64_t frame, MutableBytes out) const {
  return part.for_each_run(
      frame, [&](std::uint64_t file_at, std::uint64_t payload_at, std::uint64_t run_bytes) {
        return file.read_at(file_at, out.subspan(payload_at, run_bytes));
      });
}

}  // namespace kvstrata::tool
