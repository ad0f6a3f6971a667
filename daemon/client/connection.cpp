#include "daemon/client/connection.h"

#include <algorithm>

#include "daemon/client/hello.h"
#include "daemon/protocol/error_body.h"

namespace kvstrata::client {

namespace {

using protocol::Body;
using protocol::Header;
using protocol::MessageKind;
using protocol::Verb;

constexpr std::uint64_t event_payload_bytes_max =
    sizeof(Hash256) * protocol::blocks_per_request_max;
constexpr std::size_t scratch_bytes = 64 << 10;
// Some requests are answered with nobody waiting; room for them below the protocol's limit.
constexpr std::size_t pending_max = protocol::requests_in_flight_max - 24;

Error broken(const std::string& why) {
  return {ErrorKind::protocol, "from the daemon: " + why};
}

iovec iovec_of(ByteView bytes) {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

}  // namespace

Connection::Connection(Socket socket, const ClientOptions& options, const CancelSwitch& cancel)
    : socket_(std::move(socket)),
      cancel_(cancel),
      chunks_(options.prefault),
      inline_only_(!options.shared_memory || !socket_.is_unix()) {}

Result<std::shared_ptr<Connection>> Connection::open(const Address& address,
                                                     const ClientOptions& options,
                                                     const CancelSwitch& cancel,
                                                     MonotonicTime deadline) {
  KV_ASSIGN(Socket socket, Socket::connect(address, deadline));
  std::shared_ptr<Connection> connection(new Connection(std::move(socket), options, cancel));
  KV_ASSIGN(const Body reply,
            connection->call({.verb = Verb::hello, .body = hello_body(options)}, deadline));
  KV_ASSIGN(connection->server_, decode_hello_reply(reply));
  connection->server_.shared_memory = !connection->inline_only_;
  return connection;
}

void Connection::close(Error why) {
  if (end_) return;
  end_ = std::move(why);
  socket_.close();
  chunks_.end_all();
}

Error Connection::fail(Error why) {
  close(why);
  return why;
}

// ---- sending

Result<std::uint64_t> Connection::send(const Outgoing& request, MonotonicTime deadline,
                                       PayloadSink sink) {
  if (end_) return *end_;
  KV_TRY(make_room(deadline));
  std::uint64_t payload_bytes = request.payload.size();
  for (const ByteView value : request.values) payload_bytes += value.size();
  const ByteVector body = request.body.serialize();
  if (body.size() > protocol::body_bytes_max || payload_bytes > protocol::payload_bytes_max) {
    return Error(ErrorKind::too_large, "the request exceeds what one message may hold");
  }
  add_what_is_due();
  const std::uint64_t id = add_head(request.verb, body, payload_bytes);
  std::vector<iovec> buffers{iovec_of(outbox_), iovec_of(request.payload)};
  for (const ByteView value : request.values) buffers.push_back(iovec_of(value));
  pending_[id].sink = std::move(sink);
  const auto written = write(std::move(buffers), deadline);
  outbox_.clear();
  if (written) return id;
  pending_.erase(id);
  return fail(written.error());  // half a request can't be taken back
}

/// Appends header and body of a request to the outbox; its id.
std::uint64_t Connection::add_head(Verb verb, ByteView body, std::uint64_t payload_bytes) {
  const std::uint64_t id = next_id_++;
  const auto header = protocol::serialize({.verb = verb,
                                           .request_id = id,
                                           .body_bytes = static_cast<std::uint32_t>(body.size()),
                                           .payload_bytes = payload_bytes});
  outbox_.insert(outbox_.end(), header.begin(), header.end());
  outbox_.insert(outbox_.end(), body.begin(), body.end());
  return id;
}

void Connection::add_what_is_due() {
  const auto add_list = [&](Verb verb, std::string_view key, std::vector<std::uint64_t> ids) {
    if (ids.empty()) return;
    Body body;
    body.set_u64s(key, ids);
    pending_[add_head(verb, body.serialize(), 0)].dropped = true;
  };
  add_list(Verb::chunk_unmapped, "chunks", chunks_.take_unmapped());
  add_list(Verb::release, "leases", std::exchange(leases_to_release_, {}));
  add_list(Verb::abort, "slots", std::exchange(slots_to_abort_, {}));
}

Status Connection::say_what_is_due(MonotonicTime deadline) {
  if (end_) return *end_;
  add_what_is_due();
  const auto written = write({iovec_of(outbox_)}, deadline);
  outbox_.clear();
  if (!written) return fail(written.error());
  return {};
}

Status Connection::write(std::vector<iovec> buffers, MonotonicTime deadline) {
  std::size_t next = 0;
  while (next < buffers.size()) {
    KV_ASSIGN(std::size_t sent, socket_.send(std::span(buffers).subspan(next)));
    if (sent == 0) {
      // The daemon may be waiting for us to read before it reads on.
      KV_ASSIGN(const auto ready, socket_.wait(true, -1, deadline));
      if (!ready.readable && !ready.writable) {
        return Error(ErrorKind::deadline_exceeded, "the daemon took no bytes in time");
      }
      if (ready.readable) KV_TRY(reader_.advance(*this));
    }
    while (next < buffers.size() && sent >= buffers[next].iov_len) sent -= buffers[next++].iov_len;
    if (next < buffers.size()) {
      buffers[next].iov_base = static_cast<std::byte*>(buffers[next].iov_base) + sent;
      buffers[next].iov_len -= sent;
    }
  }
  return {};
}

Status Connection::make_room(MonotonicTime deadline) {
  while (pending_.size() >= pending_max) {
    KV_ASSIGN(const bool handled, read_one(-1, deadline));
    if (!handled) return Error(ErrorKind::busy, "too many requests wait for their replies");
  }
  return {};
}

void Connection::post(const Outgoing& request, MonotonicTime deadline) {
  const auto id = send(request, deadline);
  if (id) pending_[*id].dropped = true;
}

Result<Body> Connection::call(const Outgoing& request, MonotonicTime deadline, PayloadSink sink) {
  KV_ASSIGN(const std::uint64_t id, send(request, deadline, std::move(sink)));
  return wait(id, deadline);
}

// ---- receiving

Result<Body> Connection::wait(std::uint64_t id, MonotonicTime deadline) {
  bool cancel_sent = false;
  for (;;) {
    const auto entry = pending_.find(id);
    KV_CHECK(entry != pending_.end(), "a reply is waited for once");
    if (entry->second.reply) {
      Result<Body> reply = std::move(*entry->second.reply);
      pending_.erase(entry);
      return reply;
    }
    if (end_) {
      pending_.erase(entry);
      return *end_;
    }
    if (!cancel_sent && cancel_.requested()) {
      cancel_sent = true;
      Outgoing cancel{.verb = Verb::cancel};
      cancel.body.set_u64("request", id);
      post(cancel, deadline);
      continue;
    }
    const auto handled = read_one(cancel_sent ? -1 : cancel_.fd(), deadline);
    if (handled && !*handled && Clock::system().now() >= deadline) return give_up(id);
  }
}

Result<bool> Connection::read_one(int wake_fd, MonotonicTime deadline) {
  if (end_) return *end_;
  for (;;) {
    const auto handled = reader_.advance(*this);
    if (!handled) return fail(handled.error());
    if (*handled) return true;
    const auto ready = socket_.wait(false, wake_fd, deadline);
    if (!ready) return fail(ready.error());
    if (ready->woken) cancel_.drain();
    if (!ready->readable) return false;
  }
}

Error Connection::give_up(std::uint64_t id) {
  Error late(ErrorKind::deadline_exceeded, "no reply within the request timeout");
  if (reader_.request_being_filled() == id) {
    // Its bytes go to memory that is the caller's again in a moment.
    pending_.erase(id);
    return fail(late);
  }
  pending_[id] = {.sink = {}, .dropped = true, .reply = {}};
  return late;
}

Status Connection::process_events() {
  for (;;) {
    if (end_) return *end_;
    const auto handled = reader_.advance(*this);
    if (!handled) return fail(handled.error());
    if (!*handled) return {};
  }
}

// ---- what FrameReader hands over

Result<std::vector<MutableBytes>> Connection::place_payload(const Header& header,
                                                            const Body& body) {
  const std::uint64_t bytes = header.payload_bytes;
  if (header.kind == MessageKind::event) {
    if (bytes > event_payload_bytes_max) return broken("an event's payload is too large");
    event_payload_.resize(bytes);
    return std::vector<MutableBytes>{event_payload_};
  }
  const auto entry = pending_.find(header.request_id);
  if (entry == pending_.end()) return broken("a reply nobody asked for");
  if (entry->second.dropped || header.status != 0) return discard(bytes);
  if (!entry->second.sink) return broken("a payload nobody asked for");
  return entry->second.sink(body, bytes);
}

/// Places that all are the same small buffer.
std::vector<MutableBytes> Connection::discard(std::uint64_t bytes) {
  scratch_.resize(scratch_bytes);
  std::vector<MutableBytes> places;
  for (; bytes > 0; bytes -= places.back().size()) {
    places.push_back(MutableBytes(scratch_).first(std::min<std::uint64_t>(bytes, scratch_bytes)));
  }
  return places;
}

Status Connection::on_message(const Header& header, Body body,
                              std::vector<FileDescriptor> descriptors) {
  KV_TRY(map_chunks(body, descriptors));
  if (header.kind == MessageKind::event) {
    auto handled = handle_event(body);
    event_payload_.clear();
    return handled;
  }
  const auto entry = pending_.find(header.request_id);
  if (entry == pending_.end() || entry->second.reply) {
    // The daemon answers what it can't read with the id as it read it, then closes.
    if (header.status != 0) return protocol::decode_error(header.status, body);
    return broken("a reply nobody asked for");
  }
  if (entry->second.dropped) {
    if (header.status == 0) give_back(header.verb, body);
    pending_.erase(entry);
    return {};
  }
  if (header.status != 0) {
    entry->second.reply = protocol::decode_error(header.status, body);
  } else {
    entry->second.reply = std::move(body);
  }
  return {};
}

Status Connection::map_chunks(const Body& body, std::span<const FileDescriptor> descriptors) {
  if (descriptors.empty()) return {};
  const auto chunks = protocol::get_chunks(body);
  if (!chunks || chunks->size() != descriptors.size()) {
    return broken("field 'chunks' does not fit its file descriptors");
  }
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    const auto mapped = chunks_.add((*chunks)[i], descriptors[i]);
    if (mapped) continue;
    if (mapped.error().kind() == ErrorKind::protocol) return mapped.error();
    inline_only_ = true;  // another chunk version, or no address space: slower, but it works
    server_.shared_memory = false;
  }
  return {};
}

Status Connection::handle_event(const Body& body) {
  const auto name = body.get_text("event", 64);
  if (!name) return broken(name.error().message());
  if (*name == "chunks_retired") {
    const auto chunks = body.get_u64s("chunks", chunks_max);
    if (!chunks) return broken(chunks.error().message());
    chunks_.retire(*chunks);
  }
  if (!on_event) return {};
  const auto event = decode_event(body, event_payload_);
  if (!event) return broken(event.error().message());
  on_event(*event);
  return {};
}

void Connection::give_back(Verb verb, const Body& body) {
  const auto add_lease = [&](const Body& from) {
    const auto lease = from.get_u64_or("lease", 0, 0, UINT64_MAX);
    if (lease && *lease != 0) leases_to_release_.push_back(*lease);
  };
  if (verb == Verb::lookup || verb == Verb::get || verb == Verb::lease_attach) add_lease(body);
  if (verb == Verb::group_lookup) {
    const auto leases = body.get_bodies("leases", protocol::shards_per_request_max);
    if (leases) std::ranges::for_each(*leases, add_lease);
  }
  if (verb == Verb::reserve) {
    const auto slots = protocol::get_slots(body);
    if (!slots) return;
    for (const auto& slot : *slots) slots_to_abort_.push_back(slot.slot);
  }
}

}  // namespace kvstrata::client
