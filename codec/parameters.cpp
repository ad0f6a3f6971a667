#include "codec/parameters.h"

#include <cstring>
#include <utility>

#include "codec/linear/linear_format.h"

namespace kvstrata::codec {

Result<std::shared_ptr<const CodecParameters>> CodecParameters::parse(ByteView bytes) {
  std::uint32_t magic = 0;
  if (bytes.size() >= sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
  if (magic == linear_magic) {
    KV_ASSIGN(auto linear, LinearParameters::parse(bytes));
    return std::shared_ptr<const CodecParameters>(std::move(linear));
  }
  KV_ASSIGN(auto tables, StaticTables::parse(bytes));
  return std::shared_ptr<const CodecParameters>(std::move(tables));
}

}  // namespace kvstrata::codec
