#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tools/kvstrata/codec_files.h"
#include "tools/kvstrata/container/comparison.h"
#include "tools/kvstrata/container/heat_map.h"
#include "tools/kvstrata/container/output_file.h"
#include "tools/kvstrata/exit_code.h"

namespace kvstrata::cli {

namespace {

constexpr std::string_view page_begins = "<!doctype html";

std::string bits_text(double bits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", bits);
  return text;
}

void add_row(Table& table, const std::string& name, const std::string& layer,
             const tool::ComparisonRow& row) {
  table.add({name, layer, row.side, bits_text(row.raw_bits_a_scalar()),
             bits_text(row.static_bits_a_scalar()), bits_text(row.entropy_bits_a_scalar()),
             ratio_text(row.raw_bytes, row.static_bytes)});
}

void print(const tool::Comparison& comparison) {
  std::printf("%s, bits a scalar:\n", comparison.path.c_str());
  Table table({"what", ">layer", "", ">raw", ">static", ">entropy", ">ratio"});
  tool::ComparisonRow all;
  for (const tool::ComparisonRow& row : comparison.rows) {
    add_row(table, printable(row.name), row.side.empty() ? "" : std::to_string(row.layer), row);
    all.scalars += row.scalars;
    all.raw_bytes += row.raw_bytes;
    all.static_bytes += row.static_bytes;
    all.entropy_bits += row.entropy_bits;
  }
  if (comparison.rows.size() > 1) add_row(table, "all", "", all);
  table.print();
  const std::uint64_t encoded = comparison.static_bytes + comparison.table_bytes;
  std::printf("whole frames: raw %s, static %s with %s of tables, ratio %s\n",
              human_bytes(comparison.raw_bytes).c_str(), human_bytes(encoded).c_str(),
              human_bytes(comparison.table_bytes).c_str(),
              ratio_text(comparison.raw_bytes, encoded).c_str());
}

Result<std::vector<tool::Comparison>> compare(const CodecOptions& options) {
  std::vector<tool::Comparison> comparisons;
  for (const std::string& path : options.files) {
    PhaseBar bar;
    KV_ASSIGN(auto comparison, tool::Comparison::of(path, encode_options(options), bar.callback()));
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

/// A page may replace an older one, nothing else: `--html *.safetensors` names a dump.
Status check_page(const CodecOptions& options) {
  std::error_code none_there;
  if (!std::filesystem::exists(options.html, none_there)) return {};
  std::string begins(page_begins.size(), '\0');
  std::ifstream(options.html, std::ios::binary)
      .read(begins.data(), static_cast<std::streamsize>(begins.size()));
  if (begins == page_begins) return {};
  return Error(ErrorKind::invalid_argument,
               options.html + " is there and no page; name another file for --html");
}

Status write_page(const std::string& path, const std::vector<tool::Comparison>& comparisons) {
  const mode_t masked = ::umask(0);
  ::umask(masked);
  KV_ASSIGN(tool::OutputFile file, tool::OutputFile::create(path, {.mode = 0666U & ~masked}));
  KV_TRY(file.write_at(0, as_bytes(tool::heat_map_page(comparisons))));
  return file.commit();
}

}  // namespace

int run_codec_compare(const CodecOptions& options) {
  if (!options.html.empty()) {
    const Status fits = check_page(options);
    if (!fits) return report(fits.error());
  }
  const auto comparisons = compare(options);
  if (!comparisons) return report(comparisons.error());
  if (!options.html.empty()) {
    const Status written = write_page(options.html, *comparisons);
    if (!written) return report(written.error());
  }
  if (options.json) {
    std::printf("%s\n", tool::json_of(*comparisons, false).c_str());
  } else {
    for (const tool::Comparison& comparison : *comparisons) print(comparison);
  }
  return exit_ok;
}

}  // namespace kvstrata::cli
