// What `compare` tells of a dump.
#include "tools/kvstrata/container/comparison.h"

#include <doctest/doctest.h>

#include "tests/tools/files.h"
#include "tools/kvstrata/container/heat_map.h"

using namespace kvstrata;
using namespace kvstrata::test;
using tool::Comparison;
using tool::ComparisonRow;

namespace {

Comparison compare(const Folder& folder, const ByteVector& file,
                   const tool::EncodeOptions& options = {}) {
  write_file(folder.at("in"), file);
  const auto comparison = Comparison::of(folder.at("in"), options, {});
  REQUIRE_MESSAGE(comparison.ok(), (comparison.ok() ? "" : comparison.error().message()));
  return *comparison;
}

}  // namespace

TEST_CASE("Rows are layers of K and V, and tensors; entropy is least and raw is most") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("k.0", "3,2,512,16", 49152).add_bf16("v.0", "3,2,512,16", 49152);
  tensors.add_bf16("hidden.0", "100,100", 10000).add("tokens.0", "I32", "4", ByteVector(16));
  const Comparison comparison = compare(folder, tensors.file());
  REQUIRE(comparison.rows.size() == 7);
  std::uint64_t raw_bytes = 0;
  for (const ComparisonRow& row : comparison.rows) {
    CHECK(row.raw_bits_a_scalar() == 16);
    CHECK(row.static_bits_a_scalar() < 11);
    CHECK(row.entropy_bits_a_scalar() <= row.static_bits_a_scalar());
    CHECK(row.entropy_bits_a_scalar() == doctest::Approx(9).epsilon(0.01));  // sign, 1 of 2, 7
    raw_bytes += row.raw_bytes;
  }
  CHECK(raw_bytes == 2 * (49152 + 49152 + 10000));
  CHECK(comparison.rows[0].side == "K");
  CHECK(comparison.rows[5].side == "V");
  CHECK(comparison.rows[5].layer == 2);
  CHECK(comparison.rows[6].name == "hidden.0");
}

TEST_CASE("Every channel of every layer has its figures") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("0.0", "3,2,2,512,16", 98304);
  const Comparison comparison = compare(folder, tensors.file());
  REQUIRE(comparison.maps.size() == 2);
  for (const tool::ChannelMap& map : comparison.maps) {
    CHECK(map.layers == 3);
    CHECK(map.channels == 32);
    REQUIRE(map.static_bits.size() == 96);
    REQUIRE(map.entropy_bits.size() == 96);
    for (std::size_t i = 0; i < 96; ++i) {
      CHECK(map.entropy_bits[i] <= map.static_bits[i] + 0.001F);
      CHECK(map.static_bits[i] == doctest::Approx(9).epsilon(0.05));
    }
  }
}

TEST_CASE("Without tables there is entropy all the same") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("0.0", "1,2,1,16,4", 128);
  tool::EncodeOptions raw;
  raw.raw = true;
  const Comparison comparison = compare(folder, tensors.file(), raw);
  CHECK(comparison.rows[0].static_bits_a_scalar() == 16);
  CHECK(comparison.rows[0].entropy_bits_a_scalar() > 8);
  CHECK(comparison.maps[0].static_bits.empty());
}

TEST_CASE("A name can't break out of the page's data") {
  const Folder folder;
  Tensors tensors;
  tensors.add_bf16("</script><script>alert(1)", "64", 64);
  const std::string page = tool::heat_map_page({compare(folder, tensors.file())});
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK(page.find("\\u003cscript>alert(1)") != std::string::npos);
  CHECK(page.find("http:") == std::string::npos);
  CHECK(page.find("https:") == std::string::npos);
}
