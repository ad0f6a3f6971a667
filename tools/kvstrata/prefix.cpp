#include "tools/kvstrata/prefix.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>

namespace kvstrata::cli {

namespace {

constexpr std::uint64_t prefix_bytes_max = 64_MiB;

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

bool is_separator(char c) {
  return c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '[' || c == ']';
}

}  // namespace

Result<ByteVector> read_input(const std::string& path, std::uint64_t bytes_max) {
  const std::unique_ptr<std::FILE, CloseFile> file(path == "-" ? stdin
                                                               : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return error_from_errno(errno, "can't read " + path);
  ByteVector bytes;
  ByteVector piece(1_MiB);
  for (;;) {
    const std::size_t read = std::fread(piece.data(), 1, piece.size(), file.get());
    if (bytes.size() + read > bytes_max) {
      return Error(ErrorKind::too_large,
                   path + " is longer than " + std::to_string(bytes_max) + " bytes");
    }
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(read));
    if (read < piece.size()) break;
  }
  if (std::ferror(file.get()) != 0) return error_from_errno(errno, "can't read " + path);
  return bytes;
}

Result<Prefix> parse_prefix(const std::string& text) {
  std::string words = text;
  if (text.starts_with('@')) {
    KV_ASSIGN(const ByteVector bytes, read_input(text.substr(1), prefix_bytes_max));
    words = std::string(as_text(bytes));
  }
  Prefix prefix;
  const char* at = words.data();
  const char* const end = at + words.size();
  while (at != end) {
    if (is_separator(*at)) {
      ++at;
      continue;
    }
    const char* const word_end = std::find_if(at, end, is_separator);
    const std::string_view word(at, word_end);
    if (word.size() == 64) {
      KV_ASSIGN(const Hash256 hash, Hash256::from_hex(word));
      prefix.hashes.push_back(hash);
    } else {
      std::uint32_t token = 0;
      const auto [stop, error] = std::from_chars(at, word_end, token);
      if (error != std::errc() || stop != word_end) {
        return Error(ErrorKind::invalid_argument,
                     "'" + std::string(word) +
                         "' is neither a token id nor a block hash of 64 hex digits; give ids as "
                         "1,2,3 or @FILE");
      }
      prefix.tokens.push_back(token);
    }
    at = word_end;
  }
  if (prefix.tokens.empty() == prefix.hashes.empty()) {
    return Error(ErrorKind::invalid_argument,
                 "a prefix is token ids or block hashes, not " +
                     std::string(prefix.tokens.empty() ? "nothing" : "both"));
  }
  return prefix;
}

}  // namespace kvstrata::cli
