// The commands of kvstrata, each as plain options and a function that returns an exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvstrata::cli {

/// How to reach the daemon.
struct Target {
  std::string address;  ///< empty: KVSTRATA_SOCKET, else the daemon's default socket
  std::string token;    ///< empty: KVSTRATA_TOKEN
};

int run_serve(const std::vector<std::string>& arguments);

struct DoctorOptions {
  Target target;
  bool json = false;
  std::string data_directory;  ///< empty: the daemon's default
};
int run_doctor(const DoctorOptions& options);

struct StatsOptions {
  Target target;
  bool json = false;
  double watch_seconds = 0;  ///< 0: once
};
int run_status(const StatsOptions& options);
int run_stats(const StatsOptions& options);

struct ListOptions {
  Target target;
  std::optional<std::uint32_t> ns;  ///< none: namespaces
  std::uint64_t limit = 100;        ///< blocks; 0: all
  bool json = false;
};
int run_ls(const ListOptions& options);

/// A prefix as a person names it: token ids "1,2,3", "@file" of ids, or block hashes in hex.
struct PrefixOptions {
  Target target;
  std::uint32_t ns = 0;
  std::uint16_t group = 0;
  std::string prefix;
  bool json = false;
};
int run_inspect(const PrefixOptions& options);
int run_explain(const PrefixOptions& options);
int run_pin(const PrefixOptions& options, bool pinned);

struct ValueOptions {
  Target target;
  std::string space = "files";  ///< the namespace of opaque keys
  std::string key;
  std::string file;  ///< "-": standard input or output
  bool durable = false;
  std::uint64_t ttl_seconds = 0;
};
int run_get(const ValueOptions& options);
int run_put(const ValueOptions& options);

struct VerifyOptions {
  Target target;
  std::optional<std::uint32_t> ns;
  bool rescan = false;  ///< count the store anew instead of reading blocks
  bool json = false;
};
int run_verify(const VerifyOptions& options);

/// Works on the store itself, without a daemon; arguments as kvstratad's.
struct RecoverOptions {
  std::string config;
  std::string data_directory;
  std::string disk;
  bool json = false;
};
int run_recover(const RecoverOptions& options);

/// Works on files alone, without a daemon.
struct CodecOptions {
  std::string in, out;             ///< encode, decode; inspect: `in`
  std::vector<std::string> files;  ///< compare
  std::string dtype;               ///< of a file without a header; empty: a safetensors file
  std::string tables;              ///< a file to take tables from; empty: they are fitted
  std::uint32_t fit_blocks = 16;
  std::uint32_t block_tokens = 256;
  bool raw = false;
  bool json = false;
  std::string html;  ///< compare: the page to write; empty: none
};
int run_codec_encode(const CodecOptions& options);
int run_codec_decode(const CodecOptions& options);
int run_codec_inspect(const CodecOptions& options);
int run_codec_compare(const CodecOptions& options);

struct ClearCommand {
  Target target;
  std::optional<std::uint32_t> ns;
  std::string prefix;  ///< with ns
  std::string model;   ///< fingerprint
  bool all = false;
  bool host_only = false;
  bool also_pinned = false;
};
int run_clear(const ClearCommand& options);

struct EvictOptions {
  Target target;
  std::uint64_t bytes = 0;  ///< 0: everything that may go
};
int run_evict(const EvictOptions& options);
int run_flush(const Target& target);

}  // namespace kvstrata::cli
