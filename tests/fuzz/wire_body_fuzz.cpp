// Fuzzes everything that reads a body: an accepted one keeps its value through serialize() and
// parse(), and so does what the verbs read out of it. The input is u16 body length ‖ body ‖
// payload.
#include <algorithm>

#include "daemon/protocol/body.h"
#include "daemon/protocol/error_body.h"
#include "daemon/protocol/memory_body.h"
#include "daemon/protocol/model_body.h"
#include "daemon/protocol/new_blocks_body.h"
#include "daemon/protocol/selection_body.h"

namespace {

using namespace kvstrata;
using namespace kvstrata::protocol;

void check_body(const Body& body) {
  const ByteVector bytes = body.serialize();
  // Numbers may take more bytes than they came in, so the limit can be passed.
  if (bytes.size() > body_bytes_max) return;
  const auto again = Body::parse(bytes);
  KV_CHECK(again.ok(), "a serialised body is refused");
  KV_CHECK(again->serialize() == bytes, "a body changes when it is written again");
  (void)body.to_json();
}

void check_readers(const Body& body) {
  for (const std::string& key : body.keys()) {
    const auto number = body.get_u64(key, 3, 1000);
    KV_CHECK(!number || (*number >= 3 && *number <= 1000), "a number out of its range");
    const auto text = body.get_text(key, 10);
    KV_CHECK(!text || text->size() <= 10, "text over its limit");
    const auto numbers = body.get_u64s(key, 4, 9);
    KV_CHECK(!numbers || numbers->size() <= 4, "an array over its limit");
    const auto indexed = body.get_indexed_bytes(key, 5, 2, 4);
    KV_CHECK(!indexed || indexed->size() <= 6, "indices over their limit");
    (void)body.get_rows(key, 4, 3);
    (void)body.get_double(key);
  }
}

void check_selection(const Body& body, ByteView payload) {
  const auto selection = decode_selection(body, payload);
  if (!selection) return;
  Body body_again;
  ByteVector payload_again;
  KV_CHECK(encode_selection(selection->view(), body_again, payload_again).ok(),
           "a selection that came can't be sent");
  KV_CHECK(std::ranges::equal(payload_again, payload), "names change");
  KV_CHECK(decode_selection(body_again, payload_again).value() == *selection,
           "a selection changes when it is sent again");
}

void check_new_blocks(const Body& body, ByteView payload) {
  const auto commit = decode_commit(body, payload);
  if (commit && !commit->slots.empty()) {
    Body body_again;
    ByteVector payload_again;
    KV_CHECK(encode_new_blocks(commit->view(), body_again, payload_again).ok(),
             "new blocks that came can't be sent");
    KV_CHECK(decode_commit(body_again, payload_again).value() == *commit,
             "new blocks change when they are sent again");
  }
  const auto put = decode_put(body, payload);
  if (!put) return;
  std::uint64_t bytes = put->values_offset;
  for (const std::uint64_t length : put->blocks.lengths) bytes += length;
  KV_CHECK(bytes == payload.size(), "values outside of the payload");
}

void check_model(const Body& body) {
  const auto model = decode_model(body);
  if (!model) return;
  KV_CHECK(validate(*model).ok(), "a model that is not valid");
  KV_CHECK(decode_model(encode_model(*model)).value() == *model, "a model changes on its way");
}

void check_memory(const Body& body) {
  const auto refs = get_refs(body);
  if (refs) {
    Body again;
    set_refs(again, *refs);
    KV_CHECK(get_refs(again)->size() == refs->size(), "refs get lost");
  }
  const auto chunks = get_chunks(body);
  if (!chunks) return;
  Body again;
  set_chunks(again, *chunks);
  KV_CHECK(get_chunks(again).value() == *chunks, "chunks change on their way");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const ByteView bytes{reinterpret_cast<const std::byte*>(data), size};
  const std::size_t body_bytes =
      std::min<std::size_t>(load_le<std::uint16_t>(bytes.data()), size - 2);
  const auto body = Body::parse(bytes.subspan(2, body_bytes));
  if (!body) return 0;
  const ByteView payload = bytes.subspan(2 + body_bytes);
  check_body(*body);
  check_readers(*body);
  check_selection(*body, payload);
  check_new_blocks(*body, payload);
  (void)decode_shards(*body, payload);
  check_model(*body);
  (void)decode_register(*body);
  check_memory(*body);
  (void)decode_error(5, *body);
  return 0;
}
