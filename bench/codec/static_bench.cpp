#include "bench/codec/static_bench.h"

#include <cstring>

#include "bench/codec/entropy.h"
#include "bench/codec/peers.h"
#include "bench/common/measure.h"
#include "bench/common/must.h"
#include "kvstrata/checksum.h"

namespace kvstrata::bench {

namespace {

using codec::SimdLevel;

// Of all that was stored the fit sees so much: what a namespace has after its first minutes.
constexpr std::size_t fit_blocks = 32;
// As near to 1 MiB of payload a call as whole layers of SmolLM2 come.
constexpr std::uint32_t call_layers = 5;

std::shared_ptr<const codec::StaticTables> fit_tables(const KvBlocks& fit) {
  std::vector<ByteView> views = fit.views();
  views.resize(std::min(views.size(), fit_blocks));
  return must(codec::StaticTables::fit(fit.shape, views), "fit");
}

ByteVector encode(const KvBlocks& blocks, const codec::StaticTables& tables, std::size_t block,
                  SimdLevel level) {
  const ByteVector& payload = blocks.payloads[block];
  ByteVector frame(codec::frame_bytes_max(blocks.shape));
  frame.resize(must(
      codec::encode_frame(blocks.shape, &tables, payload, xxh3(payload), frame, level), "encode"));
  return frame;
}

double bits_with(const codec::StaticTables& tables, const KvBlocks& test) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < test.payloads.size(); ++i) {
    bytes += encode(test, tables, i, codec::best_simd_level()).size();
  }
  const double scalar_bits = 8.0 * bytes_per_scalar(test.shape.dtype);
  return scalar_bits * static_cast<double>(bytes) / static_cast<double>(test.bytes());
}

void measure_size(const std::string& name, const KvBlocks& fit, const KvBlocks& test,
                  Figures& figures) {
  const auto tables = fit_tables(fit);
  const double scalar_bits = 8.0 * bytes_per_scalar(test.shape.dtype);
  const double bits = bits_with(*tables, test);
  const double bound = entropy_bits(test, *tables);
  const std::string prefix = name.empty() ? "" : name + "_";
  figures.add(prefix + "static_bits", bits, "bits/scalar");
  figures.add(prefix + "static_entropy_bits", bound, "bits/scalar");
  figures.add(prefix + "static_ratio", scalar_bits / bits);
  figures.add(prefix + "static_entropy_ratio", scalar_bits / bound);
}

/// Parts of a block of about 1 MiB, each encoded by whatever takes part; a call codes the next.
class Parts {
 public:
  Parts(const KvBlocks& fit, const KvBlocks& test) {
    for (std::uint32_t first = 0; first + call_layers <= test.shape.layers; first += call_layers) {
      const KvBlocks part = cut_layers(test, first, call_layers);
      parts_.push_back({part, fit_tables(cut_layers(fit, first, call_layers)), {}});
      parts_.back().frame = encode(part, *parts_.back().tables, 0, codec::best_simd_level());
    }
    out_.resize(parts_.front().blocks.shape.raw_bytes());
  }

  std::size_t size() const { return parts_.size(); }
  const ByteVector& payload(std::size_t i) const { return parts_[i].blocks.payloads.front(); }
  MutableBytes out() { return out_; }

  void decode_all(SimdLevel level) {
    for (const Part& part : parts_) {
      must(codec::decode_frame(part.blocks.shape, part.tables.get(), part.frame, out_, level),
           "decode");
    }
  }
  void encode_all(SimdLevel level) {
    for (Part& part : parts_) {
      ByteVector& room = room_;
      room.resize(codec::frame_bytes_max(part.blocks.shape));
      const ByteVector& payload = part.blocks.payloads.front();
      must(codec::encode_frame(part.blocks.shape, part.tables.get(), payload, 0, room, level),
           "encode");
    }
  }

 private:
  struct Part {
    KvBlocks blocks;
    std::shared_ptr<const codec::StaticTables> tables;
    ByteVector frame;
  };
  std::vector<Part> parts_;
  ByteVector out_, room_;
};

/// A peer with an instance a part, since each keeps what it encoded.
struct PeerParts {
  std::vector<std::unique_ptr<Peer>> peers;
  Parts* parts;

  template <typename Make>
  PeerParts(Parts& all, Make&& make) : parts(&all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      peers.push_back(make());
      peers.back()->encode(all.payload(i));
      decode(i);
      if (std::memcmp(all.out().data(), all.payload(i).data(), all.out().size()) != 0) {
        fail("a peer gave other bytes back");
      }
    }
  }
  void decode(std::size_t i) { peers[i]->decode(parts->out()); }
  void decode_all() {
    for (std::size_t i = 0; i < peers.size(); ++i) decode(i);
  }
  void encode_all() {
    for (std::size_t i = 0; i < peers.size(); ++i) peers[i]->encode(parts->payload(i));
  }
};

/// Whole blocks, so many that each is out of every cache when its turn comes.
class FarBlocks {
 public:
  FarBlocks(const KvBlocks& fit, const KvBlocks& test, std::uint64_t bytes)
      : test_(test), tables_(fit_tables(fit)) {
    const std::size_t count = bytes / test.shape.raw_bytes() + 1;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t block = i % test.payloads.size();
      frames_.push_back(encode(test, *tables_, block, codec::best_simd_level()));
      from_.push_back(test.payloads[block]);
      to_.emplace_back(test.shape.raw_bytes());
    }
  }

  void decode_some() {
    for (std::size_t i = 0; i < blocks_a_turn; ++i) {
      next_ = (next_ + 1) % frames_.size();
      must(codec::decode_frame(test_.shape, tables_.get(), frames_[next_], to_[next_]), "decode");
    }
  }
  void copy_some() {
    for (std::size_t i = 0; i < blocks_a_turn; ++i) {
      next_ = (next_ + 1) % frames_.size();
      std::memcpy(to_[next_].data(), from_[next_].data(), from_[next_].size());
    }
  }
  double bytes_a_turn() const {
    return static_cast<double>(blocks_a_turn * test_.shape.raw_bytes());
  }

 private:
  static constexpr std::size_t blocks_a_turn = 4;
  const KvBlocks& test_;
  std::shared_ptr<const codec::StaticTables> tables_;
  std::vector<ByteVector> frames_, from_, to_;
  std::size_t next_ = 0;
};

}  // namespace

double static_bits(const KvBlocks& fit, const KvBlocks& test) {
  return bits_with(*fit_tables(fit), test);
}

void bench_static_size(const KvBlocks& fit, const KvBlocks& test, Figures& figures) {
  measure_size("", fit, test, figures);
  for (const auto& [name, dtype] :
       {std::pair{"fp16", DType::fp16}, {"fp8", DType::fp8_e4m3}, {"fp8_e5m2", DType::fp8_e5m2}}) {
    measure_size(name, convert(fit, dtype), convert(test, dtype), figures);
  }
}

void bench_static_pace(const KvBlocks& fit, const KvBlocks& test, const StaticPlan& plan,
                       Figures& figures) {
  const bool has_avx512 = codec::best_simd_level() == SimdLevel::avx512;
  Parts parts(fit, test);
  PeerParts hts(parts, [] { return htscodecs_peer(htscodecs_avx2); });
  PeerParts hts_wide(
      parts, [&] { return htscodecs_peer(has_avx512 ? htscodecs_avx512 : htscodecs_avx2); });
  PeerParts zstd(parts, zstd_peer);
  FarBlocks far(fit, test, plan.far_bytes);

  std::vector<Candidate> all{
      {"static_decode_avx2", [&] { parts.decode_all(SimdLevel::avx2); }, {}},
      {"static_decode", [&] { parts.decode_all(codec::best_simd_level()); }, {}},
      {"htscodecs_decode_avx2", [&] { hts.decode_all(); }, {}},
      {"htscodecs_decode", [&] { hts_wide.decode_all(); }, {}},
      {"zstd1_decode", [&] { zstd.decode_all(); }, {}},
      {"static_encode_avx2", [&] { parts.encode_all(SimdLevel::avx2); }, {}},
      {"static_encode", [&] { parts.encode_all(codec::best_simd_level()); }, {}},
      {"zstd1_encode", [&] { zstd.encode_all(); }, {}},
      {"static_far_decode", [&] { far.decode_some(); }, {}},
      {"memcpy_far", [&] { far.copy_some(); }, {}},
  };
  interleave(all, plan.rounds);
  std::map<std::string, double> pace;
  for (const Candidate& candidate : all) {
    const bool is_far = candidate.name.find("far") != std::string::npos;
    const double bytes =
        is_far ? far.bytes_a_turn() : static_cast<double>(parts.size() * parts.out().size());
    pace[candidate.name] = bytes / median(candidate.seconds);
    figures.add(candidate.name + "_gb_s", pace[candidate.name] / 1e9, "GB/s");
  }
  figures.add("static_decode_vs_htscodecs",
              pace["static_decode_avx2"] / pace["htscodecs_decode_avx2"]);
  if (has_avx512) {
    figures.add("static_decode_vs_htscodecs_avx512",
                pace["static_decode"] / pace["htscodecs_decode"]);
  }
  figures.add("static_decode_vs_zstd1", pace["static_decode"] / pace["zstd1_decode"]);
  figures.add("static_encode_vs_zstd1", pace["static_encode"] / pace["zstd1_encode"]);
  figures.add("static_decode_vs_memcpy", pace["static_far_decode"] / pace["memcpy_far"]);
}

}  // namespace kvstrata::bench
