// Codec throughput in bytes of payload, one thread: whole frames and the kernels they are made of,
// at each level of machine code, beside memcpy. Synthetic KV of 30 layers, 3 heads, 64 dims, 256
// tokens.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "codec/codec.h"
#include "kvstrata/checksum.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;

namespace {

/// One payload with tables fitted on another of the same model.
struct Subject {
  BlockShape shape;
  ByteVector payload, frame;
  std::shared_ptr<const StaticTables> tables;
  std::uint64_t payload_xxh3 = 0;

  Subject(DType dtype, const char* axes)
      : shape(test::block_shape(dtype, 30, 3, 64, 256, axes)),
        payload(test::synthetic_kv(shape, 1, 2)),
        frame(frame_bytes_max(shape)),
        payload_xxh3(xxh3(payload)) {
    const ByteVector other = test::synthetic_kv(shape, 1, 3);
    const ByteView view(other);
    tables = StaticTables::fit(shape, std::span(&view, 1)).value();
  }

  std::uint64_t encode(const StaticTables* with, SimdLevel level) {
    return encode_frame(shape, with, payload, payload_xxh3, frame, level).value();
  }
};

Subject& subject(DType dtype, const char* axes) {
  static Subject bf16(DType::bf16, "LSPHTC"), by_token(DType::bf16, "LSPTHC"),
      by_channel(DType::bf16, "LSPHCT"), fp8(DType::fp8_e4m3, "LSPHTC"),
      fp16(DType::fp16, "LSPHTC");
  if (dtype == DType::fp8_e4m3) return fp8;
  if (dtype == DType::fp16) return fp16;
  if (std::strcmp(axes, "LSPTHC") == 0) return by_token;
  return std::strcmp(axes, "LSPHCT") == 0 ? by_channel : bf16;
}

void report(benchmark::State& state, const Subject& subject, std::uint64_t frame_bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(subject.payload.size()));
  state.counters["ratio"] =
      static_cast<double>(subject.payload.size()) / static_cast<double>(frame_bytes);
}

void encode_static(benchmark::State& state, DType dtype, const char* axes, SimdLevel level) {
  Subject& s = subject(dtype, axes);
  std::uint64_t bytes = 0;
  for (auto _ : state) bytes = s.encode(s.tables.get(), level);
  report(state, s, bytes);
}

void decode_static(benchmark::State& state, DType dtype, const char* axes, SimdLevel level) {
  Subject& s = subject(dtype, axes);
  const std::uint64_t bytes = s.encode(s.tables.get(), level);
  ByteVector decoded(s.payload.size());
  for (auto _ : state) {
    decode_frame(s.shape, s.tables.get(), ByteView(s.frame).first(bytes), decoded, level).value();
    benchmark::ClobberMemory();
  }
  report(state, s, bytes);
}

void decode_raw(benchmark::State& state) {
  Subject& s = subject(DType::bf16, "LSPHTC");
  const std::uint64_t bytes = s.encode(nullptr, SimdLevel::scalar);
  ByteVector decoded(s.payload.size());
  for (auto _ : state) {
    decode_frame(s.shape, nullptr, ByteView(s.frame).first(bytes), decoded).value();
    benchmark::ClobberMemory();
  }
  report(state, s, bytes);
}

void copy(benchmark::State& state) {
  Subject& s = subject(DType::bf16, "LSPHTC");
  ByteVector to(s.payload.size());
  for (auto _ : state) {
    std::memcpy(to.data(), s.payload.data(), to.size());
    benchmark::ClobberMemory();
  }
  report(state, s, s.payload.size());
}

void fit(benchmark::State& state) {
  Subject& s = subject(DType::bf16, "LSPHTC");
  const ByteView view(s.payload);
  for (auto _ : state) benchmark::DoNotOptimize(StaticTables::fit(s.shape, std::span(&view, 1)));
  report(state, s, s.payload.size());
}

const char* name_of(SimdLevel level) {
  switch (level) {
    case SimdLevel::scalar: return "scalar";
    case SimdLevel::avx2: return "avx2";
    case SimdLevel::avx512: return "avx512";
  }
  return "unknown";
}

void add_case(DType dtype, const char* axes, SimdLevel level) {
  const std::string suffix =
      "/" + std::string(to_string(dtype)) + "/" + axes + "/" + name_of(level);
  benchmark::RegisterBenchmark(("encode_static" + suffix).c_str(), encode_static, dtype, axes,
                               level);
  benchmark::RegisterBenchmark(("decode_static" + suffix).c_str(), decode_static, dtype, axes,
                               level);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("memcpy", copy);
  benchmark::RegisterBenchmark("decode_raw", decode_raw);
  benchmark::RegisterBenchmark("fit", fit);
  for (int level = 0; level <= static_cast<int>(best_simd_level()); ++level) {
    add_case(DType::bf16, "LSPHTC", static_cast<SimdLevel>(level));
    add_case(DType::bf16, "LSPTHC", static_cast<SimdLevel>(level));
    add_case(DType::bf16, "LSPHCT", static_cast<SimdLevel>(level));
    add_case(DType::fp16, "LSPHTC", static_cast<SimdLevel>(level));
    add_case(DType::fp8_e4m3, "LSPHTC", static_cast<SimdLevel>(level));
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
