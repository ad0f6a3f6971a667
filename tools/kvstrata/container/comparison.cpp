#include "tools/kvstrata/container/comparison.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "codec/frame_format.h"
#include "tools/kvstrata/container/key_counts.h"

namespace kvstrata::tool {

namespace {

using codec::TableSet;

constexpr std::uint64_t channels_max = 1_GiB / sizeof(ChannelCounts);

/// The encoded lengths of a frame's sub-streams.
std::vector<codec::DirectoryEntry> directory_of(ByteView frame, std::uint32_t substreams) {
  std::vector<codec::DirectoryEntry> entries(substreams);
  if (substreams == 0) return entries;
  std::memcpy(entries.data(), frame.data() + sizeof(codec::FrameHeader),
              substreams * sizeof(codec::DirectoryEntry));
  return entries;
}

std::string shape_name(const Part& part) {
  return std::string(to_string(part.dtype)) + ", " + std::to_string(part.layers) + " layers of " +
         part.heads_text();
}

/// A V without its K; they come alone where their shapes do not match.
bool is_v(const Part& part) {
  return part.name.starts_with("v.");
}

Error too_many_channels() {
  return {ErrorKind::too_large, "blocks have more than " + std::to_string(channels_max) +
                                    " channels in all; split the file and compare the parts"};
}

/// What is counted of all blocks of one shape.
struct BlockFigures {
  Part like;                                 ///< the first of them
  std::vector<ComparisonRow> rows;           ///< by sub-stream
  std::vector<std::uint32_t> first_channel;  ///< by sub-stream, in `counts`
  std::vector<ChannelCounts> counts;

  static Result<std::unique_ptr<BlockFigures>> of(const Part& part) {
    auto figures = std::make_unique<BlockFigures>();
    figures->like = part;
    const codec::BlockShape shape = part.frame_shape(0);
    std::uint32_t channels = 0;
    for (std::uint32_t i = 0; i < shape.substreams(); ++i) {
      ComparisonRow row;
      row.name = shape_name(part);
      row.layer = i / figures->sides();
      row.side = figures->side_of(i);
      figures->rows.push_back(std::move(row));
      figures->first_channel.push_back(channels);
      channels += codec::placement_of(shape, i).channels();
      if (channels > channels_max) {
        return too_many_channels();
      }
    }
    figures->counts.resize(channels);
    return figures;
  }

  std::uint32_t sides() const { return like.head_dim_v == 0 ? 1 : 2; }
  std::string side_of(std::uint32_t substream) const {
    if (sides() == 1) return is_v(like) ? "V" : "K";
    return substream % 2 == 0 ? "K" : "V";
  }
  std::span<ChannelCounts> channels_of(std::uint32_t substream) {
    const std::size_t end =
        substream + 1 < first_channel.size() ? first_channel[substream + 1] : counts.size();
    return std::span(counts).subspan(first_channel[substream], end - first_channel[substream]);
  }

  void add(const codec::BlockShape& shape, ByteView frame, ByteView payload) {
    const std::vector<codec::DirectoryEntry> directory = directory_of(frame, shape.substreams());
    for (std::uint32_t i = 0; i < directory.size(); ++i) {
      const codec::Placement place = codec::placement_of(shape, i);
      rows[i].scalars += place.scalars();
      rows[i].raw_bytes += place.bytes();
      rows[i].static_bytes += directory[i].encoded_bytes;
      count_keys(place, shape.dtype, payload, channels_of(i));
    }
  }

  /// Which channels of a sub-stream share a distribution: those of a table, or else all.
  std::vector<std::size_t> pools_of(const TableSet* tables, std::uint32_t substream) {
    const std::size_t channels = channels_of(substream).size();
    if (tables == nullptr) return std::vector<std::size_t>(channels, substream);
    std::vector<std::size_t> pools;
    for (const std::byte table : tables->channel_tables(substream)) {
      pools.push_back(std::to_integer<std::size_t>(table));
    }
    return pools;
  }

  /// Fills in entropies: the scalars of a table, of all layers, have one distribution.
  void finish(const TableSet* tables) {
    const codec::ScalarFormat format = codec::scalar_format(like.dtype);
    std::vector<codec::KeyCounts> pools(tables != nullptr ? tables->size() : rows.size());
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      const std::vector<std::size_t> pool = pools_of(tables, i);
      for (std::size_t c = 0; c < pool.size(); ++c) add_to(pools[pool[c]], channels_of(i)[c]);
    }
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      const std::vector<std::size_t> pool = pools_of(tables, i);
      for (std::size_t c = 0; c < pool.size(); ++c) {
        rows[i].entropy_bits += bits_of(channels_of(i)[c], pools[pool[c]], format);
      }
    }
  }

  ChannelMap map(const TableSet* tables, std::uint32_t side) {
    const codec::ScalarFormat format = codec::scalar_format(like.dtype);
    ChannelMap map;
    map.name = shape_name(like);
    map.side = side_of(side);
    map.layers = like.layers;
    map.channels = static_cast<std::uint32_t>(channels_of(side).size());
    map.head_dim = side == 0 ? like.head_dim_k : like.head_dim_v;
    std::vector<codec::CodeCost> costs;
    for (std::size_t t = 0; tables != nullptr && t < tables->size(); ++t) {
      costs.push_back(codec::CodeCost::of(tables->records()[t]));
    }
    for (std::uint32_t i = side; i < rows.size(); i += sides()) {
      const std::vector<std::size_t> pool = pools_of(tables, i);
      for (std::size_t c = 0; c < map.channels; ++c) {
        const ChannelCounts& channel = channels_of(i)[c];
        const auto scalars = static_cast<double>(scalars_of(channel));
        codec::KeyCounts own{};
        add_to(own, channel);
        map.entropy_bits.push_back(static_cast<float>(bits_of(channel, own, format) / scalars));
        if (tables == nullptr) continue;
        map.static_bits.push_back(
            static_cast<float>(bits_of(channel, costs[pool[c]], format) / scalars));
      }
    }
    return map;
  }
};

/// A tensor of values; entropy is that of each piece of 1 MiB, as each has a table of its own.
void add_values(ComparisonRow& row, const codec::BlockShape& shape, ByteView frame,
                ByteView payload) {
  const codec::ScalarFormat format = codec::scalar_format(shape.dtype);
  const std::vector<codec::DirectoryEntry> directory = directory_of(frame, shape.substreams());
  for (std::uint32_t i = 0; i < directory.size(); ++i) {
    const codec::Placement place = codec::placement_of(shape, i);
    row.scalars += place.scalars();
    row.raw_bytes += place.bytes();
    row.static_bytes += directory[i].encoded_bytes;
    ChannelCounts counts{};
    count_keys(place, shape.dtype, payload, std::span(&counts, 1));
    codec::KeyCounts own{};
    add_to(own, counts);
    row.entropy_bits += bits_of(counts, own, format) + 8.0 * place.tail_bytes;
  }
}

/// Collects the figures of a dump's frames.
class Collector {
 public:
  Status add(const Part& part, std::uint64_t number, ByteView frame, ByteView payload) {
    const codec::BlockShape shape = part.frame_shape(number);
    if (!part.is_kv()) {
      if (number == 0) {
        ComparisonRow row;
        row.name = part.name.empty() ? to_string(part.dtype) : part.name;
        values_.push_back(std::move(row));
      }
      add_values(values_.back(), shape, frame, payload);
      return {};
    }
    KV_ASSIGN(BlockFigures * figures, figures_of(part));
    figures->add(shape, frame, payload);
    return {};
  }

  void finish(const TableSets& tables, Comparison& comparison) {
    for (const auto& figures : blocks_) {
      const auto* const set = static_cast<const TableSet*>(tables.of(figures->like.set));
      figures->finish(set);
      for (std::uint32_t side = 0; side < figures->sides(); ++side) {
        comparison.maps.push_back(figures->map(set, side));
      }
      std::ranges::move(figures->rows, std::back_inserter(comparison.rows));
    }
    std::ranges::move(values_, std::back_inserter(comparison.rows));
  }

 private:
  Result<BlockFigures*> figures_of(const Part& part) {
    for (const auto& figures : blocks_) {
      const Part& like = figures->like;
      const bool is_like = like.dtype == part.dtype && like.layers == part.layers &&
                           like.kv_heads == part.kv_heads && like.head_dim_k == part.head_dim_k &&
                           like.head_dim_v == part.head_dim_v &&
                           (like.head_dim_v != 0 || is_v(like) == is_v(part));
      if (is_like) return figures.get();
    }
    KV_ASSIGN(auto figures, BlockFigures::of(part));
    channels_ += figures->counts.size();
    if (channels_ > channels_max) return too_many_channels();
    blocks_.push_back(std::move(figures));
    return blocks_.back().get();
  }

  std::vector<std::unique_ptr<BlockFigures>> blocks_;
  std::vector<ComparisonRow> values_;
  std::size_t channels_ = 0;
};

}  // namespace

Result<Comparison> Comparison::of(const std::string& path, const EncodeOptions& options,
                                  const ProgressCallback& progress) {
  KV_ASSIGN(Dump dump, Dump::open(path, options.dump));
  KV_ASSIGN(const TableSets tables, tables_for(dump, options, progress));
  Comparison comparison;
  comparison.path = path;
  comparison.file_bytes = dump.file.bytes();
  for (const Tables& set : tables.all()) comparison.table_bytes += set->serialize().size();
  FrameEncoder encoder(dump, tables);
  Collector collector;
  std::uint64_t done = 0;
  for (const Part& part : dump.parts) {
    for (std::uint64_t number = 0; part.kind != PartKind::bytes && number < part.frames();
         ++number) {
      KV_ASSIGN(const ByteView frame, encoder.encode(part, number));
      comparison.raw_bytes += codec::frame_bytes_max(part.frame_shape(number));
      comparison.static_bytes += frame.size();
      KV_TRY(collector.add(part, number, frame, encoder.payload()));
      done += encoder.payload().size();
      if (progress) progress("comparing", done, dump.file.bytes());
    }
  }
  collector.finish(tables, comparison);
  return comparison;
}

}  // namespace kvstrata::tool
