#include "tools/kvstrata/codec_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/kvstrata/container/container.h"
#include "tools/kvstrata/exit_code.h"

namespace kvstrata::cli {

namespace {

void print_encoded(const CodecOptions& options, const tool::EncodeReport& report) {
  if (options.json) {
    const nlohmann::json json = {
        {"file_bytes", report.file_bytes},       {"container_bytes", report.container_bytes},
        {"table_bytes", report.table_bytes},     {"frames", report.frames},
        {"static_frames", report.static_frames}, {"parts_without_tables", report.untabled_parts}};
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  std::printf("%s to %s, ratio %s: %s frames, %s of them static, %s of tables\n",
              human_bytes(report.file_bytes).c_str(), human_bytes(report.container_bytes).c_str(),
              ratio_text(report.file_bytes, report.container_bytes).c_str(),
              human_count(report.frames).c_str(), human_count(report.static_frames).c_str(),
              human_bytes(report.table_bytes).c_str());
  if (report.untabled_parts != 0 && !options.tables.empty()) {
    std::printf("%s tensors are raw: no tables of %s are theirs; leave out --tables to fit some\n",
                human_count(report.untabled_parts).c_str(), options.tables.c_str());
  }
}

}  // namespace

tool::EncodeOptions encode_options(const CodecOptions& options) {
  tool::EncodeOptions made;
  if (!options.dtype.empty()) made.dump.dtype = parse_dtype(options.dtype).value();
  made.dump.block_tokens = options.block_tokens;
  made.tables = options.tables;
  made.fit_blocks = options.fit_blocks;
  made.raw = options.raw;
  return made;
}

PhaseBar::~PhaseBar() {
  if (!bar_ && !phase_.empty() && isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
}

void PhaseBar::set(std::string_view phase, std::uint64_t done, std::uint64_t total) {
  if (phase != phase_) {
    phase_ = phase;
    bar_.reset();
    if (total != 0) {
      bar_.emplace(phase_, total);
    } else if (isatty(STDERR_FILENO) != 0) {
      std::fprintf(stderr, "\r%s\033[K", phase_.c_str());
    }
  }
  if (bar_) bar_->set(done);
}

std::string ratio_text(std::uint64_t raw_bytes, std::uint64_t encoded_bytes) {
  if (encoded_bytes == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f",
                static_cast<double>(raw_bytes) / static_cast<double>(encoded_bytes));
  return text;
}

int run_codec_encode(const CodecOptions& options) {
  auto report = [&] {
    PhaseBar bar;
    return tool::encode_file(options.in, options.out, encode_options(options), bar.callback());
  }();
  if (!report) return cli::report(report.error());
  print_encoded(options, *report);
  return exit_ok;
}

int run_codec_decode(const CodecOptions& options) {
  auto report = [&] {
    PhaseBar bar;
    return tool::decode_file(options.in, options.out, bar.callback());
  }();
  if (!report) return cli::report(report.error());
  if (options.json) {
    const nlohmann::json json = {{"container_bytes", report->container_bytes},
                                 {"file_bytes", report->file_bytes},
                                 {"frames", report->frames}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%s from %s, %s frames, all sums right\n", human_bytes(report->file_bytes).c_str(),
                human_bytes(report->container_bytes).c_str(), human_count(report->frames).c_str());
  }
  return exit_ok;
}

}  // namespace kvstrata::cli
