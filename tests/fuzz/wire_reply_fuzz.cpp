// Replies and events from a daemon that may be anything: each decoder answers with an error or a
// value, and takes no more memory than the body has.
#include <cstddef>
#include <cstdint>

#include "daemon/client/hello.h"
#include "daemon/client/reply.h"
#include "daemon/protocol/error_body.h"
#include "kvstrata/check.h"

using namespace kvstrata;
using protocol::Body;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t blocks = data[0];
  const ByteView input{reinterpret_cast<const std::byte*>(data + 1), size - 1};
  const Result<Body> body = Body::parse(input);
  if (!body) return 0;
  (void)client::decode_hello_reply(*body);
  (void)client::decode_event(*body, input);
  (void)client::decode_existing(*body);
  (void)client::decode_changed(*body);
  (void)client::decode_removal(*body);
  (void)client::decode_explanation(*body);
  (void)client::decode_verification(*body);
  (void)client::decode_listing(*body, "blocks");
  (void)client::decode_listing(*body, "namespaces");
  const auto stored = client::decode_stored(*body, blocks);
  if (stored) KV_CHECK(stored->hashes.size() == blocks, "entries are missing");
  (void)protocol::decode_error(static_cast<std::uint16_t>(1 + blocks), *body);
  return 0;
}
