// What tests of codec files share: a directory of their own, whole files, and safetensors files.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/result.h"
#include "tools/kvstrata/container/container.h"
#include "tools/kvstrata/container/encode.h"

namespace kvstrata::test {

/// A directory that goes with the object.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "kvstrata-files-XXXXXX").string()) {
    REQUIRE(mkdtemp(path_.data()) != nullptr);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string at(const std::string& name) const { return path_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

inline void write_file(const std::string& path, ByteView bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const std::string_view text = as_text(bytes);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  REQUIRE(file.flush());
}

inline ByteVector read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const ByteView bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

/// A safetensors file with whatever header.
inline ByteVector safetensors(const std::string& header, ByteView data) {
  ByteVector bytes;
  append_le<std::uint64_t>(bytes, header.size());
  const ByteView text = as_bytes(header);
  bytes.insert(bytes.end(), text.begin(), text.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

/// Collects tensors of random, small bf16 numbers or the bytes given.
class Tensors {
 public:
  Tensors& add(const std::string& name, const std::string& dtype, const std::string& shape,
               const ByteVector& bytes) {
    header_ += header_.empty() ? "{" : ",";
    header_ += "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
               "],\"data_offsets\":[" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + bytes.size()) + "]}";
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  /// Numbers from the fourth of 1 to 1, so that their exponents gain.
  Tensors& add_bf16(const std::string& name, const std::string& shape, std::size_t scalars) {
    return add(name, "BF16", shape, smooth(scalars));
  }
  ByteVector smooth(std::size_t scalars) {
    ByteVector bytes;
    for (std::size_t i = 0; i < scalars; ++i) {
      append_le(bytes,
                static_cast<std::uint16_t>((random_() & 0x807f) | (125 + random_() % 2) << 7));
    }
    return bytes;
  }
  ByteVector noise(std::size_t count) {
    ByteVector bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    return bytes;
  }
  /// Spaces after the header, as writers pad it; `gap` bytes after the tensors.
  ByteVector file(std::size_t spaces = 3, std::size_t gap = 0) const {
    ByteVector data = data_;
    data.resize(data.size() + gap, std::byte{0x77});
    return safetensors(header_ + "}" + std::string(spaces, ' '), data);
  }

 private:
  std::mt19937 random_{7};
  std::string header_;
  ByteVector data_;
};

inline tool::EncodeOptions scalars_of(DType dtype) {
  tool::EncodeOptions options;
  options.dump.dtype = dtype;
  return options;
}

/// Encodes `bytes` and returns the codec file.
inline ByteVector encode_bytes(const Folder& folder, ByteView bytes,
                               const tool::EncodeOptions& options = {}) {
  write_file(folder.at("in"), bytes);
  const auto report = tool::encode_file(folder.at("in"), folder.at("encoded"), options, {});
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().message()));
  return read_file(folder.at("encoded"));
}

/// Encodes and decodes; both ways must give the same bytes.
inline void check_comes_back(const Folder& folder, const ByteVector& bytes,
                             const tool::EncodeOptions& options = {}) {
  encode_bytes(folder, bytes, options);
  const auto report = tool::decode_file(folder.at("encoded"), folder.at("out"), {});
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().message()));
  CHECK((read_file(folder.at("out")) == bytes));
  std::filesystem::remove(folder.at("out"));
}

}  // namespace kvstrata::test
