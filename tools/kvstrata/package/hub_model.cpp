#include "tools/kvstrata/package/hub_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "include/impl/blake2b.h"
#include "predictor/bf16.h"
#include "predictor/codes.h"
#include "predictor/package_layout.h"
#include "tools/kvstrata/safetensors.h"

namespace kvstrata::tool {

namespace {

namespace fs = std::filesystem;
using predictor::MatrixName;
using predictor::PackageConfig;
using predictor::SectionKind;

constexpr std::uintmax_t config_bytes_max = 1 << 20;

Result<std::string> read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error) {
    return Error(ErrorKind::not_found,
                 "there is no " + path.string() + "; name a folder as Hugging Face has them");
  }
  if (bytes > config_bytes_max) return Error(ErrorKind::corrupt, path.string() + " is too long");
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

float float_of_half(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
  const std::uint32_t exponent = bits >> 10 & 31U, mantissa = bits & 1023U;
  if (exponent == 0) {
    const float size = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -size : size;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

/// All tensors of a folder's files, by name.
class HubTensors {
 public:
  static Result<HubTensors> open(const fs::path& folder) {
    HubTensors all;
    std::vector<std::string> paths;
    std::error_code error;
    fs::directory_iterator it(folder, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      if (it->path().extension() == ".safetensors") paths.push_back(it->path());
    }
    if (error) return error_from_errno(error.value(), "can't list " + folder.string());
    std::ranges::sort(paths);
    for (const std::string& path : paths) {
      KV_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
      for (const Tensor& tensor : file.tensors()) {
        if (!all.by_name_.emplace(tensor.name, tensor).second) {
          return Error(ErrorKind::corrupt, "two files have a tensor " + tensor.name);
        }
      }
      all.files_.push_back(std::move(file));
    }
    if (paths.empty()) {
      return Error(ErrorKind::not_found, "there are no safetensors files in " + folder.string());
    }
    return all;
  }

  /// Of the shape asked for, and of a dtype that can be read.
  Result<const Tensor*> find(const std::string& name,
                             const std::vector<std::uint64_t>& shape) const {
    const auto at = by_name_.find(name);
    if (at == by_name_.end()) {
      return Error(ErrorKind::not_found, "the model has no tensor " + name);
    }
    const Tensor& tensor = at->second;
    if (tensor.shape != shape) {
      return Error(ErrorKind::corrupt,
                   "tensor " + name + " has another shape than config.json says");
    }
    if (tensor.dtype != "BF16" && tensor.dtype != "F16" && tensor.dtype != "F32") {
      return Error(ErrorKind::unsupported, "tensor " + name + " is of dtype " + tensor.dtype +
                                               "; BF16, F16 and F32 are read");
    }
    return &tensor;
  }

  /// BLAKE2b-256 of names, dtypes, shapes and bytes, in the order of names.
  Hash256 fingerprint() const {
    Blake2b hash;
    const auto add_number = [&](std::uint64_t number) {
      hash.add(std::as_bytes(std::span(&number, 1)));
    };
    const auto add_text = [&](const std::string& text) {
      add_number(text.size());
      hash.add(as_bytes(text));
    };
    for (const auto& [name, tensor] : by_name_) {
      add_text(name);
      add_text(tensor.dtype);
      add_number(tensor.shape.size());
      hash.add(std::as_bytes(std::span(tensor.shape)));
      hash.add(tensor.data);
    }
    return hash.finish();
  }

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor> by_name_;
};

/// Numbers [first, first + count) of a tensor.
Result<std::vector<float>> numbers_of(const Tensor& tensor, std::uint64_t first,
                                      std::uint64_t count) {
  std::vector<float> numbers(count);
  const std::size_t width = tensor.dtype == "F32" ? 4 : 2;
  const std::byte* at = tensor.data.data() + first * width;
  for (float& number : numbers) {
    if (width == 4) {
      number = std::bit_cast<float>(load_le<std::uint32_t>(at));
    } else if (tensor.dtype == "BF16") {
      number = predictor::float_of_bf16(load_le<std::uint16_t>(at));
    } else {
      number = float_of_half(load_le<std::uint16_t>(at));
    }
    at += width;
    if (!std::isfinite(number)) {
      return Error(ErrorKind::corrupt, "tensor " + tensor.name + " holds a NaN or an infinity");
    }
  }
  return numbers;
}

/// Fills the sections of one package.
class Import {
 public:
  Import(const HubTensors& tensors, const PackageConfig& config, predictor::PackageWriter& writer,
         const ImportProgress& progress)
      : tensors_(tensors), config_(config), layout_(config), writer_(writer), progress_(progress) {}

  Status write_embedding() {
    KV_ASSIGN(const Tensor* table,
              tensors_.find("model.embed_tokens.weight", {config_.vocab, config_.hidden}));
    std::vector<std::uint16_t> row(config_.hidden);
    for (std::uint64_t token = 0; token < config_.vocab; ++token) {
      KV_ASSIGN(const auto numbers, numbers_of(*table, token * config_.hidden, config_.hidden));
      std::ranges::transform(numbers, row.begin(), predictor::nearest_bf16);
      if (!std::ranges::all_of(
              row, [](float number) { return std::isfinite(number); }, predictor::float_of_bf16)) {
        return Error(ErrorKind::corrupt, "the embedding has a number beyond bf16's range");
      }
      KV_TRY(writer_.append(SectionKind::embedding, std::as_bytes(std::span(row))));
    }
    return {};
  }

  Status write_layer(std::uint32_t layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::string attention = prefix + "self_attn.";
    const std::uint64_t q = std::uint64_t{config_.heads} * config_.head_dim;
    const std::uint64_t kv = std::uint64_t{config_.kv_heads} * config_.head_dim;
    KV_TRY(write_vector(prefix + "input_layernorm.weight", config_.hidden));
    KV_TRY(write_vector(prefix + "post_attention_layernorm.weight", config_.hidden));
    if ((config_.flags & predictor::has_bias) != 0) {
      KV_TRY(write_vector(attention + "q_proj.bias", q));
      KV_TRY(write_vector(attention + "k_proj.bias", kv));
      KV_TRY(write_vector(attention + "v_proj.bias", kv));
    }
    if ((config_.flags & predictor::has_qk_norm) != 0) {
      KV_TRY(write_vector(attention + "q_norm.weight", config_.head_dim));
      KV_TRY(write_vector(attention + "k_norm.weight", config_.head_dim));
    }
    for (std::size_t i = 0; i < predictor::matrices_a_layer; ++i) {
      const auto name = static_cast<MatrixName>(i);
      const predictor::MatrixPlace& place = layout_.matrices()[layer][i];
      const std::string part = name < MatrixName::gate ? "self_attn." : "mlp.";
      if (place.rows > 0) KV_TRY(write_matrix(prefix + part + to_string(name) + ".weight", place));
    }
    return {};
  }

 private:
  Status write_vector(const std::string& name, std::uint64_t size) {
    KV_ASSIGN(const Tensor* tensor, tensors_.find(name, {size}));
    KV_ASSIGN(const auto numbers, numbers_of(*tensor, 0, size));
    return writer_.append(SectionKind::vectors, std::as_bytes(std::span(numbers)));
  }

  Status write_matrix(const std::string& name, const predictor::MatrixPlace& place) {
    KV_ASSIGN(const Tensor* tensor, tensors_.find(name, {place.rows, place.columns}));
    if (config_.weight_bits == 8) {
      return write_tiles(
          *tensor, place,
          predictor::CodeTile<std::int8_t>(place.columns, config_.group, predictor::top_of_8_bits));
    }
    return write_tiles(
        *tensor, place,
        predictor::CodeTile<std::int16_t>(place.columns, config_.group, predictor::top_of_13_bits));
  }

  template <typename Code>
  Status write_tiles(const Tensor& tensor, const predictor::MatrixPlace& place,
                     predictor::CodeTile<Code> tile) {
    for (std::uint64_t first = 0; first < place.rows; first += predictor::tile_rows) {
      tile.clear();
      const std::uint64_t rows = std::min<std::uint64_t>(predictor::tile_rows, place.rows - first);
      for (std::uint64_t row = 0; row < rows; ++row) {
        KV_ASSIGN(const auto numbers,
                  numbers_of(tensor, (first + row) * place.columns, place.columns));
        (void)tile.set(row, numbers);
      }
      KV_TRY(writer_.append(SectionKind::codes, std::as_bytes(tile.codes())));
      KV_TRY(writer_.append(SectionKind::scales, std::as_bytes(tile.scales())));
      done_ += tile.codes().size_bytes();
      if (progress_) progress_(done_, layout_.section_bytes(SectionKind::codes));
    }
    return {};
  }

  const HubTensors& tensors_;
  const PackageConfig& config_;
  const predictor::PackageLayout layout_;
  predictor::PackageWriter& writer_;
  const ImportProgress& progress_;
  std::uint64_t done_ = 0;
};

}  // namespace

Result<predictor::PackageWriter> import_model(const std::string& folder,
                                              const ImportOptions& options,
                                              predictor::PackageWriter::Sink sink,
                                              const ImportProgress& progress) {
  KV_ASSIGN(const std::string json, read_config(folder));
  KV_ASSIGN(HubConfig hub, parse_hub_config(json, options.positions_max));
  PackageConfig& config = hub.package;
  config.weight_bits = options.preset == Preset::max ? 13 : 8;
  config.activation_bits = options.preset == Preset::fast ? 8 : 13;
  if (options.group != 32 && options.group != 64) {
    return Error(ErrorKind::invalid_argument, "groups have 32 or 64 weights");
  }
  config.group = static_cast<std::uint16_t>(options.group);
  KV_TRY(predictor::check_config(config));
  KV_ASSIGN(const HubTensors tensors, HubTensors::open(folder));
  config.fingerprint = tensors.fingerprint();
  KV_ASSIGN(auto writer, predictor::PackageWriter::begin(config, std::move(sink)));
  Import import(tensors, config, writer, progress);
  KV_TRY(import.write_embedding());
  KV_TRY(writer.append(SectionKind::rope, rope_section(hub)));
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    KV_TRY(import.write_layer(layer));
  }
  return writer;
}

}  // namespace kvstrata::tool
