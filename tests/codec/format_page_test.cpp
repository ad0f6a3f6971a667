// The worked example of doc/frame-format.md, reproduced.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

/// The block of the page that opens with "```hex NAME".
std::string hex_block(const std::string& name) {
  std::ifstream file(KVSTRATA_SOURCE_ROOT "/doc/frame-format.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::string fence = "```hex " + name + "\n";
  const std::size_t start = page.find(fence);
  REQUIRE(start != std::string::npos);
  const std::size_t from = start + fence.size();
  return page.substr(from, page.find("```", from) - from);
}

/// 16 bytes a line.
std::string hex_of(ByteView bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const digits = "0123456789abcdef";
    const auto byte = std::to_integer<std::size_t>(bytes[i]);
    text += digits[byte >> 4];
    text += digits[byte & 15];
    text += i % 16 == 15 || i + 1 == bytes.size() ? '\n' : ' ';
  }
  return text;
}

}  // namespace

TEST_CASE("The page's frame is what the encoder writes") {
  const ByteVector payload{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
  const ByteVector frame = encode(BlockShape::opaque(DType::bf16, 5), nullptr, payload);
  CHECK(hex_of(frame) == hex_block("frame"));
}

TEST_CASE("The page's tables are what a fit gives") {
  const BlockShape shape = BlockShape::opaque(DType::bf16, 8192);
  ByteVector ones(8192, std::byte{0x80});
  for (std::size_t i = 1; i < ones.size(); i += 2) ones[i] = std::byte{0x3f};
  const ByteVector tables = fit_on(shape, ones)->serialize();
  CHECK(hex_of(tables) == hex_block("tables"));
}
