#include <cerrno>
#include <cstdio>

#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/connect.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/output.h"
#include "tools/kvstrata/prefix.h"

namespace kvstrata::cli {

namespace {

// Values stored from the command line live in a namespace of opaque keys of this name.
NamespaceSpec space_of(const std::string& name) {
  NamespaceSpec spec;
  spec.model.fingerprint = "space:" + name;
  return spec;
}

Status write_output(const std::string& path, ByteView bytes) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return error_from_errno(errno, "can't write " + path);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool flushed = path == "-" ? std::fflush(file) == 0 : std::fclose(file) == 0;
  if (written && flushed) return {};
  return error_from_errno(errno, "can't write " + path);
}

Status get(const ValueOptions& options) {
  KV_ASSIGN(Client client, connect(options.target));
  KV_ASSIGN(const Namespace ns, client.register_model(space_of(options.space)));
  KV_ASSIGN(const Fetched fetched, client.get_value(ns, options.key));
  const BlockView& view = fetched.blocks.front();
  ByteVector bytes(view.bytes().size());
  KV_TRY(view.copy_out(bytes));
  return write_output(options.file, bytes);
}

Result<std::uint64_t> put(const ValueOptions& options) {
  KV_ASSIGN(const ByteVector bytes, read_input(options.file, block_bytes_max));
  KV_ASSIGN(Client client, connect(options.target));
  KV_ASSIGN(const Namespace ns, client.register_model(space_of(options.space)));
  PutOptions how;
  how.durable = options.durable;
  if (options.ttl_seconds != 0) how.ttl = Milliseconds(options.ttl_seconds * 1000);
  KV_ASSIGN(const Stored stored, client.put_value(ns, options.key, bytes, how));
  if (stored.all_stored()) return bytes.size();
  const auto kind = static_cast<ErrorKind>(stored.status.front());
  return Error(kind, kind == ErrorKind::conflict
                         ? "another value is stored under '" + options.key +
                               "'; the first stays until it is cleared or expires"
                         : "not stored: " + std::string(to_string(kind)));
}

}  // namespace

int run_get(const ValueOptions& options) {
  const Status status = get(options);
  return status ? exit_ok : report(status.error());
}

int run_put(const ValueOptions& options) {
  const auto bytes = put(options);
  if (!bytes) return report(bytes.error());
  std::fprintf(stderr, "stored %s under '%s'%s\n", human_bytes(*bytes).c_str(), options.key.c_str(),
               options.durable ? ", durable" : "");
  return exit_ok;
}

}  // namespace kvstrata::cli
