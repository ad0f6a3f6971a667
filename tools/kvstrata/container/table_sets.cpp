#include "tools/kvstrata/container/table_sets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/kvstrata/container/container.h"

namespace kvstrata::tool {

namespace {

using Dimensions = codec::TableSet::Dimensions;

constexpr std::uint64_t fit_bytes_max = 512_MiB;
constexpr std::uint64_t sample_bytes = 64_KiB;
constexpr std::uint64_t tables_share_max = 8;  // tables take at most an eighth of what they are for
constexpr std::uint64_t tables_file_max = 1_GiB;

/// Parts that share tables.
struct Group {
  Dimensions dimensions;
  std::vector<Part*> parts;
  std::uint64_t bytes = 0;
};

std::vector<Group> groups_of(Dump& dump) {
  std::vector<Group> groups;
  for (Part& part : dump.parts) {
    if (part.kind == PartKind::bytes) continue;
    const Dimensions dimensions = dimensions_of(part);
    auto group = std::ranges::find(groups, dimensions, &Group::dimensions);
    if (group == groups.end()) group = groups.insert(group, Group{dimensions, {}, 0});
    group->parts.push_back(&part);
    group->bytes += part.bytes;
  }
  return groups;
}

std::vector<ByteView> views_of(const std::vector<ByteVector>& payloads) {
  return {payloads.begin(), payloads.end()};
}

/// A part's frames of as many tokens as any in the group, and of the same heads.
std::uint64_t whole_frames(const Part& part, const Part& like) {
  const bool same = part.frame_tokens == like.frame_tokens && part.kv_heads == like.kv_heads &&
                    part.head_dim_k == like.head_dim_k && part.head_dim_v == like.head_dim_v;
  return same ? part.tokens / part.frame_tokens : 0;
}

Result<Tables> fit_blocks(const Dump& dump, const Group& group, std::uint32_t blocks) {
  const Part& like = **std::ranges::max_element(group.parts, {}, &Part::frame_tokens);
  const codec::BlockShape shape = like.frame_shape(0);
  std::uint64_t frames = 0;
  for (const Part* part : group.parts) frames += whole_frames(*part, like);
  const std::uint64_t most = std::max<std::uint64_t>(fit_bytes_max / shape.raw_bytes(), 1);
  const std::uint64_t wanted = std::min({std::uint64_t{blocks}, frames, most});
  std::vector<ByteVector> payloads;
  std::uint64_t seen = 0;
  for (const Part* part : group.parts) {
    for (std::uint64_t frame = 0; frame < whole_frames(*part, like); ++frame, ++seen) {
      if (seen != payloads.size() * frames / wanted || payloads.size() == wanted) continue;
      payloads.emplace_back(shape.raw_bytes());
      KV_TRY(dump.read(*part, frame, payloads.back()));
    }
  }
  return codec::StaticTables::fit(shape, views_of(payloads));
}

/// Samples of equal length: whole ones of large parts, and small parts one after the other.
Result<Tables> fit_values(const Dump& dump, const Group& group, std::uint32_t blocks) {
  const std::uint64_t length = std::min(sample_bytes, group.bytes);
  const std::uint64_t most = std::min<std::uint64_t>(std::uint64_t{blocks} * (1_MiB / sample_bytes),
                                                     fit_bytes_max / sample_bytes);
  const std::uint64_t step = std::max<std::uint64_t>(group.bytes / length / most, 1) * length;
  const std::uint64_t samples_max = 4 * most;  // each large part gives at least one
  std::vector<ByteVector> samples;
  ByteVector rest;
  for (const Part* part : group.parts) {
    if (samples.size() >= samples_max) break;
    std::uint64_t at = 0;
    for (; part->bytes - at >= length; at += std::min(step, part->bytes - at)) {
      samples.emplace_back(length);
      KV_TRY(dump.file.read_at(part->at + at, samples.back()));
    }
    if (part->bytes >= length) continue;
    const std::size_t before = rest.size();
    rest.resize(before + part->bytes);
    KV_TRY(dump.file.read_at(part->at, MutableBytes(rest).subspan(before)));
    if (rest.size() < length) continue;
    samples.emplace_back(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(length));
    rest.clear();
  }
  return codec::StaticTables::fit(codec::BlockShape::opaque(group.dimensions.dtype, length),
                                  views_of(samples));
}

}  // namespace

Dimensions dimensions_of(const Part& part) {
  return Dimensions::of(part.frame_shape(0));
}

Dimensions dimensions_of(const codec::StaticTables& tables) {
  return static_cast<const codec::TableSet&>(tables).dimensions();
}

Result<TableSets> TableSets::fit(Dump& dump, std::uint32_t blocks) {
  TableSets sets;
  for (const Group& group : groups_of(dump)) {
    if (sets.size() == sets_max) break;
    KV_ASSIGN(Tables tables, group.dimensions.opaque ? fit_values(dump, group, blocks)
                                                     : fit_blocks(dump, group, blocks));
    if (tables->serialize().size() > group.bytes / tables_share_max) continue;
    for (Part* part : group.parts) part->set = static_cast<std::uint32_t>(sets.size());
    sets.add(std::move(tables));
  }
  return sets;
}

Result<TableSets> TableSets::load(const std::string& path, Dump& dump) {
  KV_ASSIGN(const InputFile file, InputFile::open(path));
  std::uint32_t magic = 0;
  if (file.bytes() >= sizeof magic) {
    KV_TRY(file.read_at(0, std::as_writable_bytes(std::span(&magic, 1))));
  }
  std::vector<Tables> found;
  if (magic == container_magic) {
    KV_ASSIGN(const Container container, Container::open(path));
    found = container.tables().all();
  } else {
    if (file.bytes() > tables_file_max) {
      return Error(ErrorKind::too_large, path + " is too large for tables");
    }
    ByteVector bytes(file.bytes());
    KV_TRY(file.read_at(0, bytes));
    auto tables = codec::StaticTables::parse(bytes);
    if (!tables) {
      return tables.error().with_context(path + " is neither a codec file nor tables");
    }
    found.push_back(*std::move(tables));
  }
  TableSets sets;
  for (const Group& group : groups_of(dump)) {
    const auto fitting = std::ranges::find_if(
        found, [&](const Tables& tables) { return dimensions_of(*tables) == group.dimensions; });
    if (fitting == found.end() || sets.size() == sets_max) continue;
    for (Part* part : group.parts) part->set = static_cast<std::uint32_t>(sets.size());
    sets.add(*fitting);
  }
  if (sets.size() > 0) return sets;
  return Error(ErrorKind::invalid_argument,
               "the tables of " + path + " are of other dtypes or shapes than " + dump.file.path() +
                   "; leave out --tables to fit them anew");
}

}  // namespace kvstrata::tool
