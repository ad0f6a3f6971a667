// Damaged codec files are errors, and nothing is written in place of what they held.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "kvstrata/checksum.h"
#include "tests/tools/files.h"

using namespace kvstrata;
using namespace kvstrata::test;
using tool::ContainerHeader;
using tool::PartRecord;
using tool::SetRecord;

namespace {

/// A small codec file with tables, static and raw frames.
ByteVector small_container(const Folder& folder) {
  Tensors tensors;
  tensors.add_bf16("k.0", "1,1,64,16", 1024).add_bf16("v.0", "1,1,64,16", 1024);
  tensors.add("tokens.0", "I32", "4", tensors.noise(16));
  ByteVector bytes = encode_bytes(folder, tensors.file());
  const auto container = tool::Container::open(folder.at("encoded"));
  REQUIRE(container.ok());
  REQUIRE(container->tables().size() == 1);
  REQUIRE(container->parts().size() == 3);
  std::filesystem::remove(folder.at("in"));
  return bytes;
}

/// Decoding these bytes fails with one of the kinds damage has, and leaves no file.
Error error_of(const Folder& folder, ByteView bytes) {
  write_file(folder.at("encoded"), bytes);
  const auto report = tool::decode_file(folder.at("encoded"), folder.at("out"), {});
  REQUIRE(!report.ok());
  CHECK(folder.files() == 1);
  return report.error();
}

void check_refused(const Folder& folder, ByteView bytes) {
  const Error error = error_of(folder, bytes);
  CHECK_MESSAGE((error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::unsupported),
                error.message());
}

/// Changes the description of a container and makes its sums right again.
struct Forgery {
  ContainerHeader header{};
  std::vector<PartRecord> parts;
  std::vector<SetRecord> sets;
  ByteVector rest;  ///< names, tables and frames

  explicit Forgery(ByteView bytes) {
    std::memcpy(&header, bytes.data(), sizeof header);
    parts.resize(header.parts);
    sets.resize(header.sets);
    std::size_t at = sizeof header;
    std::memcpy(parts.data(), &bytes[at], parts.size() * sizeof(PartRecord));
    at += parts.size() * sizeof(PartRecord);
    std::memcpy(sets.data(), &bytes[at], sets.size() * sizeof(SetRecord));
    at += sets.size() * sizeof(SetRecord);
    rest.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
  }

  ByteVector bytes() {
    const std::uint64_t names = header.description_bytes - header.parts * sizeof(PartRecord) -
                                header.sets * sizeof(SetRecord);
    ByteVector body;
    const auto add = [&](ByteView more) { body.insert(body.end(), more.begin(), more.end()); };
    add(std::as_bytes(std::span(parts)));
    add(std::as_bytes(std::span(sets)));
    add(rest);
    const std::uint64_t described = std::min<std::uint64_t>(
        body.size(), parts.size() * sizeof(PartRecord) + sets.size() * sizeof(SetRecord) + names);
    header.description_xxh3 = xxh3(ByteView(body).first(described));
    header.header_xxh3 = tool::header_checksum(header);
    ByteVector whole;
    const ByteView head = std::as_bytes(std::span(&header, 1));
    whole.assign(head.begin(), head.end());
    whole.insert(whole.end(), body.begin(), body.end());
    return whole;
  }
};

}  // namespace

TEST_CASE("A codec file with any byte changed is refused") {
  const Folder folder;
  ByteVector bytes = small_container(folder);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::byte flip{static_cast<unsigned char>(1U << i % 8)};
    bytes[i] ^= flip;
    CAPTURE(i);
    check_refused(folder, bytes);
    bytes[i] ^= flip;
  }
}

TEST_CASE("A codec file cut anywhere or continued is refused") {
  const Folder folder;
  ByteVector bytes = small_container(folder);
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    CAPTURE(length);
    check_refused(folder, ByteView(bytes).first(length));
  }
  bytes.push_back({});
  check_refused(folder, bytes);
  CHECK(error_of(folder, {}).kind() == ErrorKind::invalid_argument);
}

TEST_CASE("A damaged file leaves the file that was there as it was") {
  const Folder folder;
  ByteVector bytes = small_container(folder);
  bytes[bytes.size() - 1] ^= std::byte{1};
  write_file(folder.at("encoded"), bytes);
  write_file(folder.at("out"), ByteVector(3));
  CHECK(!tool::decode_file(folder.at("encoded"), folder.at("out"), {}).ok());
  CHECK(read_file(folder.at("out")).size() == 3);
  CHECK(folder.files() == 2);
}

TEST_CASE("Descriptions that contradict themselves are refused though their sums are right") {
  const Folder folder;
  const ByteVector bytes = small_container(folder);
  CHECK((Forgery(bytes).bytes() == bytes));
  const auto refuses = [&](const char* what, const std::function<void(Forgery&)>& forge) {
    Forgery forgery(bytes);
    forge(forgery);
    const Error error = error_of(folder, forgery.bytes());
    CHECK_MESSAGE(error.kind() == ErrorKind::corrupt, error.message());
    CHECK_MESSAGE(error.message().find(what) != std::string::npos, error.message());
  };
  using F = Forgery;
  // Parts: 0 the header of the dump, 1 K and V, 2 tokens.
  refuses("decoded length", [](F& f) { f.header.file_bytes = 0; });
  refuses("decoded length", [](F& f) { f.header.file_bytes = ~0ULL; });
  refuses("number of parts", [](F& f) { f.header.parts = 0; });
  refuses("number of parts", [](F& f) { f.header.parts = ~0U; });
  refuses("number of tables", [](F& f) { f.header.sets = ~0U; });
  refuses("length of its description", [](F& f) { f.header.description_bytes = ~0ULL; });
  refuses("its length", [](F& f) { f.header.container_bytes = 64; });
  refuses("reserved", [](F& f) { f.header.reserved[1] = 1; });
  refuses("no known kind", [](F& f) { f.parts[0].kind = 4; });
  refuses("no known dtype", [](F& f) { f.parts[1].dtype = 0; });
  refuses("no known dtype", [](F& f) { f.parts[1].dtype = 7; });
  refuses("reserved", [](F& f) { f.parts[1].reserved = 1; });
  refuses("tables that are not there", [](F& f) { f.parts[1].set = 1; });
  refuses("plain bytes", [](F& f) { f.parts[0].set = 0; });
  refuses("outside of the file", [](F& f) { f.parts[0].at = ~0ULL; });
  refuses("outside of the file", [](F& f) { f.parts[0].bytes = 0; });
  refuses("outside of the file", [](F& f) { f.parts[0].bytes = ~0ULL; });
  refuses("outside of the file", [](F& f) { f.parts[1].at = f.header.file_bytes; });
  refuses("outside of the file", [](F& f) { f.parts[1].at_v = ~0ULL; });
  refuses("no block has", [](F& f) { f.parts[1].layers = ~0U; });
  refuses("no block has", [](F& f) { f.parts[1].head_dim_k = 0; });
  refuses("no block has", [](F& f) { f.parts[1].tokens = 0; });
  refuses("no block has", [](F& f) { f.parts[1].frame_tokens = 0; });
  refuses("no block has", [](F& f) { f.parts[1].frame_tokens = 65; });
  refuses("another size", [](F& f) { f.parts[1].tokens = ~0U; });
  refuses("another size", [](F& f) { f.parts[1].bytes += 1; });
  refuses("different sizes", [](F& f) { f.parts[1].kind = 2, f.parts[1].head_dim_v = 8; });
  refuses("no block", [](F& f) { f.parts[0].layers = 1; });
  refuses("names beyond", [](F& f) { f.parts[1].name_bytes = 65535; });
  refuses("65535", [](F& f) { f.parts[1].name_bytes = 65536; });
  refuses("no use for", [](F& f) { f.parts[0].name_v_bytes = 1; });
  refuses("too long", [](F& f) { f.parts[1].name_v_bytes -= 1; });
  refuses("gaps", [](F& f) { f.parts[0].bytes -= 1; });
  refuses("overlap", [](F& f) { f.parts[2].bytes += 1, f.parts[2].at -= 1; });
  refuses("no part uses", [](F& f) { f.parts[1].set = tool::no_set; });
  refuses("reserved", [](F& f) { f.sets[0].reserved = 1; });
  refuses("length of its tables", [](F& f) { f.sets[0].bytes = ~0U; });
  refuses("sum of its tables", [](F& f) { f.sets[0].content_hash ^= 1; });
  refuses("another length", [](F& f) { f.parts[1].frame_tokens = 32; });
  refuses("another sum", [](F& f) { f.header.file_xxh3 ^= 1; });
  refuses("another sum", [](F& f) { std::swap(f.parts[1].at, f.parts[1].at_v); });
}

TEST_CASE("A version that is not known is unsupported") {
  const Folder folder;
  Forgery forgery(small_container(folder));
  forgery.header.version = 2;
  CHECK(error_of(folder, forgery.bytes()).kind() == ErrorKind::unsupported);
}
