// Package files: what is written is what is read, and nothing that was changed is.
#include "predictor/package.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "tests/predictor/tiny_package.h"

using namespace kvstrata;
using namespace kvstrata::predictor;
using namespace kvstrata::test;

namespace {

Result<std::shared_ptr<const Package>> parse(const ByteVector& file) {
  return Package::parse(file, nullptr);
}

/// A file whose sums are right whatever was changed in it: what is refused then is refused for what
/// it says.
ByteVector resealed(
    ByteVector file,
    const std::function<void(PackageHeader&, std::vector<PackageEntry>&, ByteVector&)>& change) {
  PackageHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  std::vector<PackageEntry> entries(header.entries);
  std::memcpy(entries.data(), file.data() + sizeof header, entries.size() * sizeof(PackageEntry));
  change(header, entries, file);
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, entries.data(), entries.size() * sizeof(PackageEntry));
  reseal(file);
  return file;
}

/// What a change of the config is answered with.
ErrorKind refusal_of_config(const std::function<void(PackageConfig&)>& change) {
  const TinyModel tiny({.name = "config"});
  const ByteVector file = resealed(*package_of(tiny), [&](auto&, auto& entries, ByteVector& bytes) {
    PackageConfig config;
    std::byte* const at = bytes.data() + entries[0].offset;
    std::memcpy(&config, at, sizeof config);
    change(config);
    std::memcpy(at, &config, sizeof config);
  });
  const auto package = parse(file);
  REQUIRE_FALSE(package.ok());
  return package.error().kind();
}

std::uint64_t first_digest(const Model& model, const std::vector<std::uint32_t>& tokens) {
  KvSequence sequence = make_sequence(model);
  Forward forward(model, sequence, tokens);
  const Expected first = forward.expect();
  std::vector<float> k = first.k;
  forward.know(k, first.v);
  return forward.expect().digest;
}

}  // namespace

TEST_CASE("A model read from its package computes what it computed before it was written") {
  for (const TinyForm& form :
       std::vector<TinyForm>{{.name = "llama"},
                             {.name = "fast", .group = 32, .weight_bits = 8, .activation_bits = 8},
                             {.name = "qwen2", .bias = true, .weight_bits = 8},
                             {.name = "qwen3", .head_dim = 80, .window = 40, .qk_norm = true}}) {
    CAPTURE(form.name);
    TinyModel tiny(form);
    const auto tokens = tiny.tokens(64);
    const auto file = package_of(tiny, false, {"first", "second"});
    REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.error().message()));
    const auto package = parse(*file);
    REQUIRE_MESSAGE(package.ok(), (package.ok() ? "" : package.error().message()));
    CHECK(first_digest((*package)->model(), tokens) == first_digest(tiny.model(), tokens));
    REQUIRE((*package)->statistics().size() == 2);
    CHECK(as_text((*package)->statistics()[1]) == "second");
  }
}

TEST_CASE("What identifies the weights does not depend on statistics, and tells all else apart") {
  const TinyModel tiny({.name = "hash"});
  const auto hash = [](const ByteVector& file) { return parse(file).value()->weights_hash(); };
  const Hash256 plain = hash(*package_of(tiny));
  CHECK(hash(*package_of(tiny, false, {"statistics"})) == plain);
  CHECK(hash(*package_of(tiny, true)) != plain);
  const TinyModel other({.name = "hash", .weight_bits = 8});
  CHECK(hash(*package_of(other)) != plain);
}

TEST_CASE("RoPE tables of bf16 are widened") {
  const TinyModel tiny({.name = "bf16"});
  const ByteVector file = *package_of(tiny, true);
  const auto package = parse(file);
  REQUIRE(package.ok());
  const Model& model = (*package)->model();
  REQUIRE(model.cosines.size() == tiny.model().cosines.size());
  for (std::size_t i = 0; i < model.cosines.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(tiny.model().sines[i]) & 0xffff0000U;
    CHECK(model.sines[i] == std::bit_cast<float>(bits));
  }
}

TEST_CASE("A file is mapped from disk; what is no package is refused by name") {
  const TinyModel tiny({.name = "file"});
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kvstrata-package-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "tiny.package";
  const ByteVector file = *package_of(tiny);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  const auto package = Package::open(path);
  CHECK(package.ok());
  CHECK(Package::open(folder / "absent").error().kind() == ErrorKind::not_found);
  CHECK(Package::open(folder).error().kind() == ErrorKind::corrupt);
  std::ofstream(folder / "empty").close();
  CHECK(Package::open(folder / "empty").error().kind() == ErrorKind::corrupt);
  std::filesystem::remove_all(folder);
}

TEST_CASE("Any cut or changed byte of a package is refused") {
  const TinyModel tiny({.name = "damage", .weight_bits = 8});
  const ByteVector file = *package_of(tiny, false, {"statistics"});
  for (std::size_t size = 0; size < file.size(); size += size < 5000 ? 97 : 3989) {
    CHECK_FALSE(
        parse(ByteVector(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size))).ok());
  }
  ByteVector changed = file;
  for (std::size_t at = 0; at < file.size(); at += at < 600 ? 1 : 1499) {
    changed[at] ^= std::byte{0x10};
    CAPTURE(at);
    CHECK_FALSE(parse(changed).ok());
    changed[at] ^= std::byte{0x10};
  }
  changed.push_back(std::byte{0});
  CHECK_FALSE(parse(changed).ok());
}

TEST_CASE("Configs out of range are refused before anything is made of them") {
  const auto huge = std::numeric_limits<std::uint32_t>::max();
  const auto refused = [](auto change) { return refusal_of_config(change) == ErrorKind::corrupt; };
  CHECK(refused([&](PackageConfig& c) { c.layers = huge; }));
  CHECK(refused([](PackageConfig& c) { c.layers = 0; }));
  CHECK(refused([](PackageConfig& c) { ++c.layers; }));  // in range, but the sections are others
  CHECK(refused([&](PackageConfig& c) { c.hidden = huge - 7; }));
  CHECK(refused([](PackageConfig& c) { c.hidden += 1; }));
  CHECK(refused([&](PackageConfig& c) { c.intermediate = huge; }));
  CHECK(refused([&](PackageConfig& c) { c.vocab = huge; }));
  CHECK(refused([&](PackageConfig& c) { c.heads = c.kv_heads = huge; }));
  CHECK(refused([](PackageConfig& c) { c.heads = 3; }));
  CHECK(refused([](PackageConfig& c) { c.kv_heads = 0; }));
  CHECK(refused([](PackageConfig& c) { c.head_dim = 0; }));
  CHECK(refused([](PackageConfig& c) { c.rotary_dim = 18; }));
  CHECK(refused([](PackageConfig& c) { c.positions = 63; }));
  CHECK(refused([](PackageConfig& c) { c.group = 0; }));
  CHECK(refused([](PackageConfig& c) { c.weight_bits = 9; }));
  CHECK(refused([](PackageConfig& c) { c.activation_bits = 8; }));  // weights have 13
  CHECK(refused([](PackageConfig& c) { c.flags |= 8; }));
  CHECK(refused([](PackageConfig& c) { c.eps = std::numeric_limits<float>::quiet_NaN(); }));
  CHECK(refused([](PackageConfig& c) { c.softmax_scale = 0; }));
  CHECK(refused([](PackageConfig& c) { c.rope_inverse = -1; }));
  CHECK(refused([](PackageConfig& c) { c.arithmetic = Arithmetic{7}; }));
  CHECK(refusal_of_config([](PackageConfig& c) { c.arithmetic = Arithmetic::e4m3; }) ==
        ErrorKind::unsupported);
}

TEST_CASE("Sections that are others, elsewhere or hold what no writer makes are refused") {
  const TinyModel tiny({.name = "sections"});
  const ByteVector file = *package_of(tiny, false, {"statistics"});
  using Entries = std::vector<PackageEntry>;
  const auto refused = [&](auto change) {
    const auto package = parse(resealed(file, change));
    return !package.ok() && package.error().kind() == ErrorKind::corrupt;
  };
  CHECK(parse(resealed(file, [](auto&, auto&, auto&) {})).ok());
  CHECK(refused([](auto&, Entries& entries, auto&) { std::swap(entries[1], entries[2]); }));
  CHECK(refused([](auto&, Entries& entries, auto&) { entries[3].offset += 4096; }));
  CHECK(refused([](auto&, Entries& entries, auto&) { entries[4].bytes -= 2; }));
  CHECK(refused([](auto&, Entries& entries, auto&) { entries[6].bytes = ~std::uint64_t{0}; }));
  CHECK(refused([](auto&, Entries& entries, auto&) { entries[6].index = 1; }));
  CHECK(refused([](PackageHeader& header, Entries& entries, auto&) {
    header.entries = 5;
    entries.resize(5);
  }));
  CHECK(refused([](PackageHeader& header, auto&, auto&) { header.file_bytes += 1; }));
  CHECK(refused([](PackageHeader& header, Entries& entries, ByteVector& bytes) {
    PackageEntry empty{};  // behind the end of the file
    empty.kind = SectionKind::statistics;
    empty.index = 1;
    empty.offset = round_up(bytes.size(), package_alignment);
    entries.push_back(empty);
    ++header.entries;
  }));
  CHECK(refused([](auto&, Entries& entries, ByteVector& bytes) {
    store_le(bytes.data() + entries[1].offset, std::uint16_t{0x7f80});
  }));
  const auto put = [](std::size_t section, auto number) {
    return [=](auto&, Entries& entries, ByteVector& bytes) {
      std::memcpy(bytes.data() + entries[section].offset + 8, &number, sizeof number);
    };
  };
  constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
  CHECK(refused(put(2, not_a_number)));
  CHECK(refused(put(3, std::numeric_limits<float>::infinity())));
  CHECK(refused(put(4, std::int16_t{4096})));
  CHECK(refused(put(5, -1.0F)));
  CHECK(refused([](auto&, Entries& entries, ByteVector& bytes) {
    bytes[entries[0].offset + entries[0].bytes] = std::byte{1};  // between sections
  }));
  CHECK(parse(resealed(file, [](PackageHeader& header, auto&, auto&) { header.version = 2; }))
            .error()
            .kind() == ErrorKind::unsupported);
}

TEST_CASE("A writer takes no more and no less than its sections hold") {
  const TinyModel tiny({.name = "writer"});
  const auto sink = [](std::uint64_t, ByteView) -> Status { return {}; };
  auto writer = PackageWriter::begin(config_of(tiny), sink);
  REQUIRE(writer.ok());
  CHECK(writer->finish().error().kind() == ErrorKind::invalid_argument);
  const ByteVector much(1 << 20);
  CHECK(writer->append(SectionKind::vectors, much).error().kind() == ErrorKind::invalid_argument);
  CHECK(writer->append(SectionKind::statistics, {}).error().kind() == ErrorKind::invalid_argument);
  CHECK(writer->add_statistics({}).error().kind() == ErrorKind::invalid_argument);
  PackageConfig bad = config_of(tiny);
  bad.layers = 0;
  CHECK(PackageWriter::begin(bad, sink).error().kind() == ErrorKind::invalid_argument);
}
