#include "tools/kvstrata/codec_arguments.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kvstrata::cli {

namespace {

constexpr const char* codec_help =
    "Encodes dumps of KV caches to files, and tells what the codecs make of them; needs no daemon.";

constexpr const char* encode_help =
    "Encode a file to one that decodes alone, to the same bytes.\n"
    "IN is a safetensors file, of which `k.N` and `v.N` [layers, kv_heads, tokens, head_dim] and\n"
    "[layers, 2, kv_heads, tokens, head_dim] are taken for K and V, or with --dtype scalars "
    "alone.\n"
    "Example: kvstrata codec encode cache.safetensors cache.kvsc";

constexpr const char* decode_help =
    "Give back the file that was encoded, checked by its sums, or nothing.\n"
    "Example: kvstrata codec decode cache.kvsc cache.safetensors";

constexpr const char* inspect_help =
    "Show what an encoded file holds, from its headers; the frames are not decoded.\n"
    "Example: kvstrata codec inspect cache.kvsc";

constexpr const char* compare_help =
    "Show bits a scalar by layer, K and V, for each codec, beside the first-order entropy.\n"
    "Nothing is stored. Example: kvstrata codec compare cache.safetensors --html cache.html";

void add_dump(CLI::App* sub, CodecOptions& options) {
  sub->add_option("--dtype", options.dtype,
                  "the file is scalars of this type, without a header; else it is safetensors")
      ->check(CLI::IsMember(
          std::vector<std::string>{"bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int8", "fp32"}));
  auto* fit = sub->add_option("--fit", options.fit_blocks,
                              "fit tables on so many blocks of each shape, spread over the file")
                  ->check(CLI::Range(1U, 4096U))
                  ->capture_default_str();
  sub->add_option("--tables", options.tables,
                  "take the tables of this encoded file, or tables alone, instead of fitting some")
      ->excludes(fit);
  sub->add_option("--block-tokens", options.block_tokens, "tokens of a frame at most")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
}

CLI::App* add(CLI::App* codec, const char* name, const char* help, CodecOptions& options,
              std::function<int()>& command, int (*run)(const CodecOptions&)) {
  CLI::App* sub = codec->add_subcommand(name, help);
  sub->add_flag("--json", options.json, "machine-readable");
  sub->callback([&options, &command, run] { command = [&options, run] { return run(options); }; });
  return sub;
}

}  // namespace

void add_codec(CLI::App& app, CodecOptions& options, std::function<int()>& command) {
  CLI::App* codec = app.add_subcommand("codec", codec_help);
  codec->require_subcommand(1);
  CLI::App* encode = add(codec, "encode", encode_help, options, command, run_codec_encode);
  CLI::App* decode = add(codec, "decode", decode_help, options, command, run_codec_decode);
  for (CLI::App* sub : {encode, decode}) {
    sub->add_option("IN", options.in, "the file to read")->required();
    sub->add_option("OUT", options.out, "the file to write; one of this name is replaced")
        ->required();
  }
  add_dump(encode, options);
  encode->add_flag("--raw", options.raw, "store frames raw, with sums only")
      ->excludes(encode->get_option("--fit"))
      ->excludes(encode->get_option("--tables"));
  CLI::App* inspect = add(codec, "inspect", inspect_help, options, command, run_codec_inspect);
  inspect->add_option("FILE", options.in, "an encoded file")->required();
  CLI::App* compare = add(codec, "compare", compare_help, options, command, run_codec_compare);
  compare->add_option("FILE", options.files, "safetensors files, or with --dtype scalars")
      ->required();
  add_dump(compare, options);
  compare->add_option("--html", options.html,
                      "also write a page with every channel's bits; it needs no network");
}

}  // namespace kvstrata::cli
