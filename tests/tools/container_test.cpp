// What is encoded comes back byte for byte.
#include <doctest/doctest.h>

#include "kvstrata/checksum.h"
#include "tests/tools/files.h"
#include "tools/kvstrata/container/output_file.h"

using namespace kvstrata;
using namespace kvstrata::test;

namespace {

constexpr DType all_dtypes[] = {DType::bf16,     DType::fp16, DType::fp8_e4m3,
                                DType::fp8_e5m2, DType::int8, DType::fp32};

/// A dump as models give it, with every kind of part.
ByteVector dump_file() {
  Tensors tensors;
  tensors.add("tokens.0", "I32", "100", ByteVector(400, std::byte{9}));
  tensors.add_bf16("v.0", "2,2,100,8", 3200).add_bf16("k.0", "2,2,100,8", 3200);
  tensors.add_bf16("hidden.0", "2,100,5", 1000).add_bf16("3.1", "2,2,2,64,8", 4096);
  tensors.add("half", "F16", "7", tensors.noise(14))
      .add("eight", "F8_E4M3", "33", tensors.noise(33));
  tensors.add("five", "F8_E5M2", "1", tensors.noise(1)).add("int", "I8", "9", tensors.noise(9));
  tensors.add("long", "I64", "2", tensors.noise(16)).add_bf16("none", "0", 0);
  tensors.add("float", "F32", "3000", tensors.noise(12000));
  return tensors.file(5, 3);
}

std::string hex_of_page() {
  std::ifstream file(KVSTRATA_SOURCE_ROOT "/doc/codec-files.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::string fence = "```hex container\n";
  const std::size_t from = page.find(fence) + fence.size();
  return page.substr(from, page.find("```", from) - from);
}

}  // namespace

TEST_CASE("A dump comes back byte for byte, its header too") {
  const Folder folder;
  const ByteVector file = dump_file();
  for (const std::uint32_t block_tokens : {1U, 7U, 16U, 64U, 1024U}) {
    tool::EncodeOptions options;
    options.dump.block_tokens = block_tokens;
    check_comes_back(folder, file, options);
  }
  tool::EncodeOptions raw;
  raw.raw = true;
  check_comes_back(folder, file, raw);
}

TEST_CASE("Scalars of any dtype, number and content come back") {
  const Folder folder;
  Tensors tensors;
  for (const DType dtype : all_dtypes) {
    for (const std::size_t bytes : {1UL, 2UL, 3UL, 255UL, 70001UL}) {
      check_comes_back(folder, tensors.noise(bytes), scalars_of(dtype));
      check_comes_back(folder, ByteVector(bytes, std::byte{0xff}), scalars_of(dtype));  // NaN
      check_comes_back(folder, ByteVector(bytes, std::byte{0x3c}), scalars_of(dtype));
    }
  }
  check_comes_back(folder, ByteVector(tool::value_frame_bytes + 1), scalars_of(DType::bf16));
}

TEST_CASE("Blocks whose exponents are few are static and shorter") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("k.0", "2,2,512,16", 32768).add_bf16("v.0", "2,2,512,16", 32768);
  write_file(folder.at("in"), tensors.file());
  const auto report = tool::encode_file(folder.at("in"), folder.at("out"), {}, {});
  REQUIRE(report.ok());
  CHECK(report->static_frames == 2);
  CHECK(report->container_bytes < report->file_bytes * 3 / 4);
}

TEST_CASE("Tables come from another codec file, or from tables alone") {
  const Folder folder;
  Tensors tensors, others;
  tensors.add_bf16("0.0", "2,2,2,256,8", 16384);
  others.noise(5);
  others.add_bf16("1.0", "2,2,2,256,8", 16384).add_bf16("x", "5", 5);
  encode_bytes(folder, tensors.file());
  std::filesystem::rename(folder.at("encoded"), folder.at("first"));
  const auto first = tool::Container::open(folder.at("first"));
  REQUIRE(first.ok());
  REQUIRE(first->tables().size() == 1);
  write_file(folder.at("tables"), first->tables().of(0)->serialize());
  for (const char* name : {"first", "tables"}) {
    tool::EncodeOptions options;
    options.tables = folder.at(name);
    check_comes_back(folder, others.file(), options);
    const auto second = tool::Container::open(folder.at("encoded"));
    REQUIRE(second.ok());
    REQUIRE(second->tables().size() == 1);
    CHECK(second->tables().of(0)->content_hash() == first->tables().of(0)->content_hash());
  }
  tool::EncodeOptions options = scalars_of(DType::fp32);
  options.tables = folder.at("tables");
  const auto refused = tool::encode_file(folder.at("in"), folder.at("out"), options, {});
  REQUIRE(!refused.ok());
  CHECK(refused.error().kind() == ErrorKind::invalid_argument);
  options.tables = folder.at("in");
  CHECK(tool::encode_file(folder.at("in"), folder.at("out"), options, {}).error().kind() ==
        ErrorKind::corrupt);
}

TEST_CASE("Encoding is deterministic") {
  const Folder folder;
  const ByteVector first = encode_bytes(folder, dump_file());
  CHECK((encode_bytes(folder, dump_file()) == first));
}

TEST_CASE("The page's file is what the encoder writes") {
  const Folder folder;
  const ByteVector payload{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
  std::string hex;
  std::size_t column = 0;
  for (const std::byte byte : encode_bytes(folder, payload, scalars_of(DType::bf16))) {
    const char* const digits = "0123456789abcdef";
    hex += digits[std::to_integer<std::size_t>(byte) >> 4];
    hex += digits[std::to_integer<std::size_t>(byte) & 15];
    hex += ++column % 16 == 0 ? '\n' : ' ';
  }
  hex.back() = '\n';
  CHECK(hex == hex_of_page());
}

TEST_CASE("An output replaces a file whole, and only when it is committed") {
  const Folder folder;
  write_file(folder.at("out"), ByteVector(3));
  {
    auto file = tool::OutputFile::create(folder.at("out"), {.mode = 0600});
    REQUIRE(file.ok());
    REQUIRE(file->write_at(5, ByteVector(5, std::byte{1})).ok());
    CHECK(*file->sum(10) == xxh3([] {
      ByteVector whole(10);
      std::fill(whole.begin() + 5, whole.end(), std::byte{1});
      return whole;
    }()));
  }
  CHECK(read_file(folder.at("out")).size() == 3);
  CHECK(folder.files() == 1);
  auto file = tool::OutputFile::create(folder.at("out"), {.mode = 0600});
  REQUIRE(file.ok());
  REQUIRE(file->write_at(0, ByteVector(7)).ok());
  REQUIRE(file->commit().ok());
  CHECK(read_file(folder.at("out")).size() == 7);
  CHECK(folder.files() == 1);
}

TEST_CASE("An output is no directory, no device, and in a directory that is there") {
  const Folder folder;
  CHECK(tool::OutputFile::create(folder.at("."), {.mode = 0600}).error().kind() ==
        ErrorKind::invalid_argument);
  CHECK(tool::OutputFile::create("/dev/null", {.mode = 0600}).error().kind() ==
        ErrorKind::invalid_argument);
  CHECK(tool::OutputFile::create(folder.at("none/out"), {.mode = 0600}).error().kind() ==
        ErrorKind::not_found);
}

TEST_CASE("An output in place of a link goes to where it leads") {
  const Folder folder;
  write_file(folder.at("real"), ByteVector(3));
  std::filesystem::create_symlink("real", folder.at("link"));
  auto file = tool::OutputFile::create(folder.at("link"), {.mode = 0600});
  REQUIRE(file.ok());
  REQUIRE(file->write_at(0, ByteVector(8)).ok());
  REQUIRE(file->commit().ok());
  CHECK(std::filesystem::is_symlink(folder.at("link")));
  CHECK(read_file(folder.at("real")).size() == 8);
}
