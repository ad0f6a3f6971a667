// Files become parts that cover every byte of them, or an error that says what is wrong.
#include "tools/kvstrata/container/dump.h"

#include <doctest/doctest.h>

#include "tests/tools/files.h"

using namespace kvstrata;
using namespace kvstrata::test;
using tool::Dump;
using tool::Part;
using tool::PartKind;

namespace {

Result<Dump> open(const Folder& folder, ByteView bytes, const tool::DumpOptions& options = {}) {
  write_file(folder.at("in"), bytes);
  return Dump::open(folder.at("in"), options);
}

const Part* find(const Dump& dump, std::string_view name) {
  for (const Part& part : dump.parts) {
    if (part.name == name) return &part;
  }
  return nullptr;
}

std::string message_of(const Folder& folder, ByteView bytes) {
  const auto dump = open(folder, bytes);
  return dump.ok() ? "no error" : dump.error().message();
}

}  // namespace

TEST_CASE("K and V of one number are one part, other tensors one each") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("v.0", "2,3,40,8", 1920).add_bf16("k.0", "2,3,40,4", 960);
  tensors.add_bf16("k.1", "2,3,40,4", 960).add_bf16("0.0", "2,2,3,16,4", 768);
  tensors.add_bf16("hidden.0", "2,40,3", 240).add("tokens.0", "I32", "40", ByteVector(160));
  const auto dump = open(folder, tensors.file(0, 5), {.dtype = {}, .block_tokens = 16});
  REQUIRE(dump.ok());
  const Part* const pair = find(*dump, "k.0");
  REQUIRE(pair != nullptr);
  CHECK(pair->kind == PartKind::apart);
  CHECK(pair->name_v == "v.0");
  CHECK(pair->head_dim_k == 4);
  CHECK(pair->head_dim_v == 8);
  CHECK(pair->frames() == 3);
  CHECK(pair->frame_shape(2).tokens == 8);
  CHECK(pair->at_v < pair->at);
  CHECK(find(*dump, "v.0") == nullptr);
  CHECK(find(*dump, "k.1")->head_dim_v == 0);
  CHECK(find(*dump, "0.0")->kind == PartKind::blocks);
  CHECK(find(*dump, "hidden.0")->kind == PartKind::values);
  CHECK(find(*dump, "tokens.0")->kind == PartKind::bytes);
  std::uint64_t bytes = 0;
  for (const Part& part : dump->parts) bytes += part.bytes;
  CHECK(bytes == dump->file.bytes());
}

TEST_CASE("Runs of a frame cover its payload once") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("k.0", "2,3,40,4", 960).add_bf16("v.0", "2,3,40,8", 1920);
  const auto dump = open(folder, tensors.file(), {.dtype = {}, .block_tokens = 16});
  REQUIRE(dump.ok());
  const Part* const part = find(*dump, "k.0");
  std::uint64_t in_file = 0;
  for (std::uint64_t frame = 0; frame < part->frames(); ++frame) {
    std::uint64_t next = 0;
    const Status walked = part->for_each_run(
        frame, [&](std::uint64_t, std::uint64_t payload_at, std::uint64_t run_bytes) -> Status {
          CHECK(payload_at == next);
          next += run_bytes;
          return {};
        });
    REQUIRE(walked.ok());
    CHECK(next == part->frame_shape(frame).raw_bytes());
    in_file += next;
  }
  CHECK(in_file == part->bytes);
}

TEST_CASE("A side whose other has another shape or dtype is a part alone") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("k.0", "2,3,40,4", 960).add_bf16("v.0", "2,3,20,4", 480);
  tensors.add_bf16("k.1", "1,1,8,4", 32).add("v.1", "F16", "1,1,8,4", ByteVector(64));
  const auto dump = open(folder, tensors.file());
  REQUIRE(dump.ok());
  for (const char* name : {"k.0", "v.0", "k.1", "v.1"}) {
    REQUIRE(find(*dump, name) != nullptr);
    CHECK(find(*dump, name)->head_dim_v == 0);
  }
}

TEST_CASE("What no block can be is values") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("k.0", "2000,1,1,1", 2000).add_bf16("v.0", "2000,1,1,1", 2000);
  tensors.add_bf16("nothing", "0,4", 0);
  const auto dump = open(folder, tensors.file());
  REQUIRE(dump.ok());
  CHECK(find(*dump, "k.0")->kind == PartKind::values);
  CHECK(find(*dump, "v.0")->kind == PartKind::values);
  CHECK(find(*dump, "nothing") == nullptr);
}

TEST_CASE("A safetensors file that lies is an error that says so, and what to do") {
  const Folder folder;
  const std::string tensor = R"("dtype":"BF16","shape":[2],"data_offsets":)";
  const ByteVector data(8);
  const auto says = [&](const std::string& header, const char* what) {
    const std::string message = message_of(folder, safetensors(header, data));
    CHECK_MESSAGE(message.find(what) != std::string::npos, message);
  };
  says("", "no JSON object");
  says("", "--dtype");
  says("[1]", "no JSON object");
  says("{\"a\":1}", "lacks dtype");
  says("{\"a\":{" + tensor + "[0,4]},\"b\":{" + tensor + "[2,6]}}", "'a' and 'b' overlap");
  says("{\"a\":{" + tensor + "[6,10]}}", "outside of the file");
  says("{\"a\":{" + tensor + "[4,0]}}", "outside of the file");
  says("{\"a\":{" + tensor + "[0,8]}}", "differ in length");
  CHECK(message_of(folder, ByteVector(4)).find("shorter") != std::string::npos);
  CHECK(message_of(folder, ByteVector(8, std::byte{0xff})).find("longer") != std::string::npos);
  CHECK(message_of(folder, {}).find("is empty") != std::string::npos);
}

TEST_CASE("Something else than a file is refused") {
  const Folder folder;
  CHECK(Dump::open(folder.at("none"), {}).error().kind() == ErrorKind::not_found);
  CHECK(Dump::open(folder.at("."), {}).error().kind() == ErrorKind::invalid_argument);
  CHECK(Dump::open("/dev/zero", {}).error().kind() == ErrorKind::invalid_argument);
}

TEST_CASE("A file that changes while it is read is noticed") {
  const Folder folder;
  write_file(folder.at("in"), ByteVector(100));
  const auto file = tool::InputFile::open(folder.at("in"));
  REQUIRE(file.ok());
  CHECK(file->check_unchanged().ok());
  write_file(folder.at("in"), ByteVector(99));
  const Status status = file->check_unchanged();
  REQUIRE(!status.ok());
  CHECK(status.error().kind() == ErrorKind::conflict);
  ByteVector all(100);
  CHECK(file->read_at(0, all).error().kind() == ErrorKind::corrupt);
}
