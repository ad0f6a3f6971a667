#include "bench/codec/layout_bench.h"

#include <cstring>
#include <list>

#include "bench/common/measure.h"
#include "bench/common/must.h"
#include "codec/geometry.h"

namespace kvstrata::bench {

namespace {

// As near to 1 MiB of payload a call as whole layers of SmolLM2 come.
constexpr std::uint32_t call_layers = 5;
constexpr std::size_t calls_a_turn = 8;  // a single call takes too little time to be measured well

struct NamedLayout {
  std::string name;
  Layout layout;
};

std::vector<NamedLayout> layouts() {
  return {
      {"transformers", {"LSPHTC", "LSPHTC", 0, ""}},
      {"transformers_pages_of_16", {"LSPHTC", "LSPHTC", 16, ""}},
      {"vllm_gpu_pages_of_16", {"LSPTHC", "LSPTHC", 16, ""}},
      {"vllm_cpu", {"LPHSCT", "LPHSTC", 0, ""}},
      {"vllm_cpu_pages_of_16", {"LPHSCT", "LPHSTC", 16, ""}},
  };
}

/// The same scalars of a payload, each where `to` has it.
ByteVector rearrange(const codec::BlockShape& from, const codec::BlockShape& to, ByteView payload) {
  ByteVector out(to.raw_bytes());
  for (std::uint32_t s = 0; s < from.substreams(); ++s) {
    const codec::Placement source = codec::placement_of(from, s);
    const codec::Placement target = codec::placement_of(to, s);
    for (std::uint32_t channel = 0; channel < source.channels(); ++channel) {
      for (std::uint32_t token = 0; token < source.tokens(); ++token) {
        std::memcpy(&out[target.at(channel, token)], &payload[source.at(channel, token)],
                    source.scalar_bytes);
      }
    }
  }
  return out;
}

/// One payload in one layout, its frame, and the memory both are made in.
class Block {
 public:
  Block(const KvBlocks& blocks, Layout layout, const codec::StaticTables& tables)
      : shape_(blocks.shape), tables_(tables) {
    shape_.layout = std::move(layout);
    payload_ = rearrange(blocks.shape, shape_, blocks.payloads.front());
    decoded_.resize(payload_.size());
    room_.resize(codec::frame_bytes_max(shape_));
    frame_bytes_ = encode();
    decode();
    if (decoded_ != payload_) fail("a layout gave other bytes back");
  }

  /// Leaves the frame where decode() takes it from. Returns its length.
  std::uint64_t encode() {
    return must(codec::encode_frame(shape_, &tables_, payload_, 0, room_), "encode");
  }
  void decode() {
    const ByteView frame = ByteView(room_).first(frame_bytes_);
    must(codec::decode_frame(shape_, &tables_, frame, decoded_), "decode");
  }
  double bytes_a_turn() const { return static_cast<double>(calls_a_turn * payload_.size()); }

 private:
  codec::BlockShape shape_;
  const codec::StaticTables& tables_;
  ByteVector payload_, decoded_, room_;
  std::uint64_t frame_bytes_ = 0;
};

}  // namespace

void bench_layouts(const KvBlocks& fit, const KvBlocks& test, std::size_t rounds,
                   Figures& figures) {
  const KvBlocks fit_part = cut_layers(fit, 0, call_layers);
  const KvBlocks part = cut_layers(test, 0, call_layers);
  const auto tables = must(codec::StaticTables::fit(fit_part.shape, fit_part.views()), "fit");
  std::list<Block> blocks;  // candidates keep references
  std::vector<Candidate> candidates;
  for (const NamedLayout& named : layouts()) {
    Block& block = blocks.emplace_back(part, named.layout, *tables);
    candidates.push_back({"static_decode_" + named.name,
                          [&block] {
                            for (std::size_t i = 0; i < calls_a_turn; ++i) block.decode();
                          },
                          {}});
    candidates.push_back({"static_encode_" + named.name,
                          [&block] {
                            for (std::size_t i = 0; i < calls_a_turn; ++i) block.encode();
                          },
                          {}});
  }
  interleave(candidates, rounds);
  const double bytes = blocks.front().bytes_a_turn();
  for (const Candidate& candidate : candidates) {
    figures.add(candidate.name + "_gb_s", bytes / median(candidate.seconds) / 1e9, "GB/s");
  }
}

}  // namespace kvstrata::bench
