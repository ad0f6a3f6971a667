// Fitting tables: channels with like distributions of (sign, key) share a table, found as k-means
// finds clusters, with code length as the distance. Integers only: the same input gives the same
// tables on every machine.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "codec/code_cost.h"
#include "codec/codec.h"
#include "codec/geometry.h"
#include "codec/key_histograms.h"
#include "codec/static_tables.h"

namespace kvstrata::codec {

namespace {

constexpr int rounds = 6;
constexpr std::uint64_t samples_per_table = 4096;
constexpr std::size_t opaque_tables_max = 16;

/// What tells roughly which channels are alike.
struct Profile {
  std::uint32_t lopsidedness = 0;  ///< share of negative signs, in fifths
  std::uint32_t mean_key = 0;      ///< in units of 1/64

  template <typename Entries>
  static Profile of(const Entries& entries) {
    std::uint64_t count = 1, keys = 0, negative = 0;
    for (const auto& [bin, occurrences] : entries) {
      count += occurrences;
      keys += std::uint64_t{occurrences} * (bin & 0xff);
      negative += bin >= 256 ? occurrences : 0;
    }
    return {static_cast<std::uint32_t>(negative * 5 / count),
            static_cast<std::uint32_t>(keys * 64 / count)};
  }
  friend auto operator<=>(const Profile&, const Profile&) = default;
};

/// Channels whose mean exponents differ by more are not worth comparing.
constexpr std::uint32_t near_keys = 3 * 64;

bool near(const Profile& a, const Profile& b) {
  return a.mean_key < b.mean_key + near_keys && b.mean_key < a.mean_key + near_keys;
}

/// Channels in the order of their profiles: neighbours are alike.
std::vector<std::uint32_t> sorted_channels(const std::vector<Profile>& profiles) {
  std::vector<std::uint32_t> order(profiles.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t c) { return std::pair(profiles[c], c); });
  return order;
}

/// A group of channels that share a table.
struct Cluster {
  KeyCounts counts{};
  Profile profile;
  TableRecord record{};
  CodeCost cost{};
};

std::uint64_t cost_of(std::span<const KeyHistograms::Entry> channel, const CodeCost& cost) {
  std::uint64_t total = 0;
  for (const KeyHistograms::Entry entry : channel) {
    total += std::uint64_t{entry.count} * cost.of_bin[entry.bin];
  }
  return total;
}

Profile profile_of(const KeyCounts& counts) {
  std::vector<std::pair<std::size_t, std::uint64_t>> entries;
  for (std::size_t bin = 0; bin < key_bins; ++bin) entries.emplace_back(bin, counts[bin]);
  return Profile::of(entries);
}

class Clustering {
 public:
  Clustering(const KeyHistograms& histograms, const ScalarFormat& format, std::size_t tables)
      : histograms_(histograms), format_(format), assignment_(histograms.channels()) {
    for (std::size_t c = 0; c < histograms.channels(); ++c) {
      profiles_.push_back(Profile::of(histograms.channel(c)));
    }
    const std::vector<std::uint32_t> order = sorted_channels(profiles_);
    for (std::size_t i = 0; i < order.size(); ++i) {
      assignment_[order[i]] = static_cast<std::uint32_t>(i * tables / order.size());
    }
    rebuild(tables);
    for (int round = 0; round < rounds && clusters_.size() > 1; ++round) {
      reassign();
      rebuild(clusters_.size());
    }
  }

  const std::vector<Cluster>& clusters() const { return clusters_; }
  const std::vector<std::uint32_t>& assignment() const { return assignment_; }

 private:
  /// Tables from the channels assigned to them; clusters without channels vanish, and those with
  /// coded signs come first.
  void rebuild(std::size_t count) {
    clusters_.assign(count, {});
    for (std::size_t c = 0; c < assignment_.size(); ++c) {
      for (const KeyHistograms::Entry entry : histograms_.channel(c)) {
        clusters_[assignment_[c]].counts[entry.bin] += entry.count;
      }
    }
    std::vector<bool> used(count, false);
    for (const std::uint32_t a : assignment_) used[a] = true;
    std::vector<std::uint32_t> kept;
    for (std::uint32_t a = 0; a < count; ++a) {
      if (!used[a]) continue;
      clusters_[a].record = build_table(clusters_[a].counts, format_);
      clusters_[a].cost = CodeCost::of(clusters_[a].record);
      clusters_[a].profile = profile_of(clusters_[a].counts);
      kept.push_back(a);
    }
    std::ranges::sort(kept, {}, [&](std::uint32_t a) {
      return std::pair(clusters_[a].record.sign_coded == 0, a);
    });
    std::vector<Cluster> sorted;
    std::vector<std::uint32_t> number(count);
    for (const std::uint32_t a : kept) {
      number[a] = static_cast<std::uint32_t>(sorted.size());
      sorted.push_back(clusters_[a]);
    }
    for (std::uint32_t& a : assignment_) a = number[a];
    clusters_ = std::move(sorted);
  }

  void reassign() {
    for (std::size_t c = 0; c < assignment_.size(); ++c) {
      const auto channel = histograms_.channel(c);
      std::uint64_t least = cost_of(channel, clusters_[assignment_[c]].cost);
      for (std::uint32_t a = 0; a < clusters_.size(); ++a) {
        if (!near(profiles_[c], clusters_[a].profile)) continue;
        const std::uint64_t cost = cost_of(channel, clusters_[a].cost);
        if (cost < least) assignment_[c] = a, least = cost;
      }
    }
  }

  const KeyHistograms& histograms_;
  const ScalarFormat& format_;
  std::vector<Profile> profiles_;  ///< per channel
  std::vector<std::uint32_t> assignment_;
  std::vector<Cluster> clusters_;
};

/// How many tables pay: each needs samples to be fitted on; and where tokens do not fill units,
/// each pads half a unit of every sub-stream, which may cost 1 %.
std::size_t table_limit(const BlockShape& shape, const KeyHistograms& histograms) {
  std::uint64_t limit =
      std::min<std::uint64_t>(histograms.samples() / samples_per_table, tables_max);
  limit = std::min<std::uint64_t>(limit, histograms.channels());
  if (shape.is_opaque()) return std::clamp<std::uint64_t>(limit, 1, opaque_tables_max);
  if (shape.tokens % unit_lanes != 0) {
    const std::uint64_t scalars = shape.substream_bytes(0) / bytes_per_scalar(shape.dtype);
    limit = std::min(limit, scalars / (100 * unit_lanes / 2));
  }
  return std::max<std::uint64_t>(limit, 1);
}

Error invalid(const std::string& what) {
  return {ErrorKind::invalid_argument, "fit static tables: " + what};
}

}  // namespace

Result<std::shared_ptr<const StaticTables>> StaticTables::fit(const BlockShape& shape,
                                                              std::span<const ByteView> payloads) {
  KV_TRY(check_shape(shape));
  if (payloads.empty()) return invalid("no payload");
  for (const ByteView payload : payloads) {
    if (payload.size() != shape.raw_bytes()) return invalid("a payload is not of the shape's size");
  }
  const KeyHistograms histograms = KeyHistograms::of(shape, payloads);
  if (histograms.channels() == 0) return invalid("payloads without bytes");
  const ScalarFormat format = scalar_format(shape.dtype);
  const Clustering clustering(histograms, format, table_limit(shape, histograms));

  std::vector<TableRecord> records;
  for (const Cluster& cluster : clustering.clusters()) records.push_back(cluster.record);
  ByteVector index;
  if (!shape.is_opaque()) {
    for (const std::uint32_t a : clustering.assignment())
      index.push_back(static_cast<std::byte>(a));
  }
  return std::shared_ptr<const StaticTables>(std::make_shared<TableSet>(
      TableSet::Dimensions::of(shape), std::move(records), std::move(index)));
}

}  // namespace kvstrata::codec
