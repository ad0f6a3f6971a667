// The sending side of a session: replies, errors, events, and the chunks that go with them.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "daemon/protocol/error_body.h"
#include "daemon/server/log.h"
#include "daemon/server/session.h"

namespace kvstrata::daemon {

using protocol::Body;
using protocol::Header;
using protocol::MessageKind;
using protocol::Verb;

namespace {

bool may_reply_as(Verb verb) {
  const auto number = static_cast<std::uint8_t>(verb);
  return number >= 1 && number <= protocol::verb_max && verb != Verb::event;
}

}  // namespace

void Session::push(Header header, ByteView body, ByteView small_payload, OutMessage message) {
  if (transport_ == nullptr) return;
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  header.payload_bytes = small_payload.size();
  for (const ByteView piece : message.payload) header.payload_bytes += piece.size();
  header.descriptors = static_cast<std::uint16_t>(message.descriptors.size());
  const protocol::HeaderBytes header_bytes = protocol::serialize(header);

  ByteVector& head = message.head;
  head.reserve(header_bytes.size() + body.size() + small_payload.size());
  head.insert(head.end(), header_bytes.begin(), header_bytes.end());
  head.insert(head.end(), body.begin(), body.end());
  head.insert(head.end(), small_payload.begin(), small_payload.end());
  context_.counters.descriptors_sent += message.descriptors.size();
  out_.push(std::move(message));
  transport_->want_flush();
}

void Session::send_error(Verb verb, std::uint64_t id, const Error& error) {
  ++context_.counters.replies_error;
  ++context_.counters.errors[std::string(to_string(error.kind()))];
  Header header;
  // A verb no reply may have is not repeated: the client could not read its own answer.
  header.verb = may_reply_as(verb) ? verb : Verb::hello;
  header.kind = MessageKind::reply;
  header.status = static_cast<std::uint16_t>(error.kind());
  header.request_id = id;
  push(header, protocol::error_body(error).serialize(), {}, {});
}

void Session::answer_now(Request& request, Result<Reply> reply) {
  if (finish(request)) answer(request, std::move(reply));
}

void Session::answer(const Request& request, Result<Reply> reply) {
  if (reply) {
    send(request, std::move(*reply));
  } else {
    send_error(request.verb, request.id, reply.error());
  }
}

void Session::send(const Request& request, Reply reply) {
  const Status made = make_reply(request, reply);
  if (made) return;
  if (reply.undo) reply.undo();
  send_error(request.verb, request.id, made.error());
}

Status Session::make_reply(const Request& request, Reply& reply) {
  std::vector<ChunkId>& chunks = reply.chunks;
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  std::erase_if(chunks, [this](ChunkId chunk) { return chunks_sent_.contains(chunk); });
  KV_TRY(send_chunk_events(chunks));

  OutMessage message;
  std::vector<protocol::ChunkAnnouncement> announced;
  KV_ASSIGN(message.descriptors, announce(chunks, announced));
  if (!announced.empty()) protocol::set_chunks(reply.body, announced);
  const ByteVector body = reply.body.serialize();
  if (body.size() > protocol::body_bytes_max) {
    for (const auto& chunk : announced) chunk_unmapped(ChunkId{chunk.chunk});  // it was never sent
    return Error(ErrorKind::too_large, "the answer exceeds 1 MiB; ask for less at a time");
  }

  ++context_.counters.replies_ok;
  hold_lease(reply);
  message.payload = std::move(reply.payload);
  message.lease = reply.lease;
  Header header;
  header.verb = request.verb;
  header.kind = MessageKind::reply;
  header.request_id = request.id;
  push(header, body, {}, std::move(message));
  return {};
}

/// A message takes 32 descriptors: what is beyond comes before it in events of its own.
Status Session::send_chunk_events(std::vector<ChunkId>& chunks) {
  while (chunks.size() > protocol::descriptors_per_message_max) {
    const auto first = chunks.end() - protocol::descriptors_per_message_max;
    const std::vector<ChunkId> group(first, chunks.end());
    chunks.erase(first, chunks.end());
    std::vector<protocol::ChunkAnnouncement> announced;
    OutMessage message;
    KV_ASSIGN(message.descriptors, announce(group, announced));
    Body body;
    body.set_text("event", "chunks");
    protocol::set_chunks(body, announced);
    Header header;
    header.verb = Verb::event;
    header.kind = MessageKind::event;
    push(header, body.serialize(), {}, std::move(message));
  }
  return {};
}

/// Copies of the descriptors: the arena may close its own before ours are sent.
Result<std::vector<UniqueFd>> Session::announce(
    std::span<const ChunkId> chunks, std::vector<protocol::ChunkAnnouncement>& announced) {
  std::vector<UniqueFd> descriptors;
  for (const ChunkId chunk : chunks) {
    const auto info = context_.engine.find_chunk(chunk);
    if (!info) return Error(ErrorKind::lease_expired, "the memory was given back meanwhile");
    UniqueFd copy(fcntl(info->fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) return error_from_errno(errno, "passing shared memory (raise the open-files limit)");
    descriptors.push_back(std::move(copy));
    announced.push_back(
        {chunk.value, static_cast<protocol::ChunkKind>(info->kind), info->file_bytes});
  }
  for (const ChunkId chunk : chunks) {
    chunks_sent_.insert(chunk);
    context_.engine.chunk_sent(chunk, id());
  }
  return descriptors;
}

void Session::hold_lease(const Reply& reply) {
  if (!reply.lease) return;
  HeldLease& held = held_leases_[*reply.lease];
  ++held.replies;
  held.release_when_sent |= reply.release_lease_when_sent;
}

void Session::message_sent(const OutMessage& message) {
  if (!message.lease) return;
  const auto held = held_leases_.find(*message.lease);
  KV_CHECK(held != held_leases_.end(), "a reply without its lease");
  if (--held->second.replies != 0) return;
  const bool release = held->second.release_when_sent;
  held_leases_.erase(held);
  if (release) (void)context_.engine.release(caller_, *message.lease);
}

void Session::send_event(const Body& body, ByteView payload, bool must_arrive) {
  if (transport_ == nullptr || closing_ || !authenticated_) return;
  if (!must_arrive && out_.queued_bytes() > context_.limits.event_bytes_max) {
    ++events_lost_;
    ++context_.counters.events_lost;
    log::folded(LogLevel::info, "events-lost",
                "connection " + std::to_string(id().value) + " (" + peer_.name +
                    ") reads too slowly; events for it are dropped");
    return;
  }
  Header header;
  header.verb = Verb::event;
  header.kind = MessageKind::event;
  if (events_lost_ != 0 && !must_arrive) {
    Body lost;
    lost.set_text("event", "lost").set_u64("count", std::exchange(events_lost_, 0));
    push(header, lost.serialize(), {}, {});
  }
  ++context_.counters.events_sent;
  push(header, body.serialize(), payload, {});
}

}  // namespace kvstrata::daemon
