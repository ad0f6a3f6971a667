#include "daemon/client/put.h"

#include <algorithm>
#include <numeric>

#include "daemon/client/reply.h"

namespace kvstrata::client {

namespace {

using protocol::Verb;

bool is_tokens(const PutRequest& request) {
  return request.names.keys.empty();
}

std::uint64_t bytes_in(std::span<const ByteView> values) {
  std::uint64_t bytes = 0;
  for (const ByteView value : values) bytes += value.size();
  return bytes;
}

std::vector<std::uint64_t> lengths_of(std::span<const ByteView> values) {
  std::vector<std::uint64_t> lengths;
  for (const ByteView value : values) lengths.push_back(value.size());
  return lengths;
}

/// How many of `values` from `first` on make a batch: at least one.
std::size_t batch_size(std::span<const ByteView> values, std::size_t first, std::size_t most) {
  std::uint64_t bytes = values[first].size();
  std::size_t count = 1;
  while (count < most && first + count < values.size() &&
         bytes + values[first + count].size() <= batch_bytes) {
    bytes += values[first + count].size();
    ++count;
  }
  return count;
}

std::uint64_t largest_of(std::span<const ByteView> values) {
  std::size_t largest = 0;
  for (const ByteView value : values) largest = std::max(largest, value.size());
  return largest;
}

/// The daemon's staging memory is used up for now, or smaller than asked for.
bool is_shortage(const Error& error) {
  return error.kind() == ErrorKind::busy || error.kind() == ErrorKind::out_of_memory ||
         error.kind() == ErrorKind::too_large;
}

/// A Batches adds the answers of one batch after another up.
class Batches {
 public:
  Batches(const PutRequest& request, std::uint32_t ns_id) : request_(request), ns_id_(ns_id) {}

  std::size_t next() const { return sent_; }
  bool done() const { return stopped_ || sent_ == request_.values.size(); }

  /// The names of the next `count` blocks; they count as sent. Valid until the next call.
  protocol::NewBlocksView take(std::size_t count) {
    auto names = names_of(request_, ns_id_, sent_, count, extras_);
    if (is_tokens(request_) && !stored_.hashes.empty()) names.parent = stored_.hashes.back();
    sent_ += count;
    return names;
  }

  void add(const Stored& part) {
    stored_.sequence = std::max(stored_.sequence, part.sequence);
    std::ranges::copy(part.hashes, std::back_inserter(stored_.hashes));
    std::ranges::copy(part.status, std::back_inserter(stored_.status));
    // What continues a block that is not there would be stored for nobody.
    stopped_ = is_tokens(request_) && !part.all_stored();
  }

  Stored finish() {
    const std::size_t all = request_.values.size();
    if (stored_.status.size() < all) {
      stored_.status.resize(all, stored_.status.back());
      stored_.hashes.resize(all);
    }
    return std::move(stored_);
  }

 private:
  const PutRequest& request_;
  std::uint32_t ns_id_;
  std::size_t sent_ = 0;
  bool stopped_ = false;
  protocol::Extras extras_;
  Stored stored_;
};

Result<Stored> put_inline(Session& session, Connection& connection, const PutRequest& request,
                          Batches& batches, const Session::Call& call) {
  while (!batches.done()) {
    const std::size_t first = batches.next();
    const std::size_t count = batch_size(request.values, first, protocol::blocks_per_request_max);
    const auto values = request.values.subspan(first, count);
    const auto lengths = lengths_of(values);
    auto names = batches.take(count);
    names.lengths = lengths;
    Outgoing outgoing{.verb = Verb::put};
    KV_TRY(protocol::encode_new_blocks(names, outgoing.body, outgoing.payload));
    outgoing.values = values;
    KV_ASSIGN(const auto reply, session.ask(connection, std::move(outgoing), call));
    KV_ASSIGN(const Stored part, decode_stored(reply, count));
    batches.add(part);
  }
  return batches.finish();
}

/// A StagedPut copies one batch into staging memory while the daemon takes the one before out.
class StagedPut {
 public:
  StagedPut(Session& session, const ConnectionPtr& connection, const PutRequest& request,
            Batches& batches, const Session::Call& call)
      : session_(session),
        connection_(connection),
        request_(request),
        batches_(batches),
        call_(call) {}

  Result<Stored> run() {
    while (!batches_.done()) {
      KV_ASSIGN(Reservation slots, reserve());
      const std::size_t count = slots.size();
      const auto values = request_.values.subspan(batches_.next(), count);
      for (std::size_t i = 0; i < count; ++i) {
        if (!values[i].empty()) {
          std::memcpy(slots.slots()[i].data(), values[i].data(), values[i].size());
        }
      }
      KV_TRY(finish_last());
      if (batches_.done()) break;
      auto names = batches_.take(count);
      const auto lengths = lengths_of(values);
      if (!is_tokens(request_)) names.lengths = lengths;
      KV_ASSIGN(last_id_,
                send_commit(session_, *connection_, std::move(slots), count, names, call_));
      last_count_ = count;
    }
    KV_TRY(finish_last());
    return batches_.finish();
  }

 private:
  Result<Reservation> reserve() {
    const std::size_t first = batches_.next();
    std::size_t count = batch_size(request_.values, first, most_);
    for (;;) {
      const std::uint64_t bytes =
          is_tokens(request_) ? 0 : largest_of(request_.values.subspan(first, count));
      auto slots =
          reserve_slots(session_, connection_, request_.ns, static_cast<std::uint32_t>(count),
                        bytes, request_.names.group, call_);
      if (slots || !is_shortage(slots.error())) return slots;
      if (last_count_ != 0) {
        KV_TRY(finish_last());  // gives its slots back
      } else if (count > 1) {
        most_ = count /= 2;
      } else {
        return slots;
      }
    }
  }

  Status finish_last() {
    if (last_count_ == 0) return {};
    KV_ASSIGN(const Stored part,
              finish_commit(*connection_, last_id_, std::exchange(last_count_, 0), call_));
    batches_.add(part);
    return {};
  }

  Session& session_;
  const ConnectionPtr& connection_;
  const PutRequest& request_;
  Batches& batches_;
  const Session::Call& call_;
  std::size_t most_ = protocol::blocks_per_request_max;
  std::uint64_t last_id_ = 0;
  std::size_t last_count_ = 0;  // blocks of the commit in flight; 0: none
};

Status check_names(const PutRequest& request) {
  const std::size_t blocks = request.values.size();
  if (is_tokens(request)) {
    const std::uint64_t block_bytes = request.ns.block_bytes(request.names.group);
    if (request.names.tokens.size() != blocks * request.ns.block_tokens()) {
      return Error(ErrorKind::invalid_argument, "each block needs its block_tokens token ids");
    }
    for (const ByteView value : request.values) {
      if (value.size() == block_bytes) continue;
      return Error(ErrorKind::invalid_argument, "a block of this group has " +
                                                    std::to_string(block_bytes) + " bytes, not " +
                                                    std::to_string(value.size()));
    }
  } else if (request.names.keys.size() != blocks) {
    return Error(ErrorKind::invalid_argument, "each value needs a key");
  }
  if (largest_of(request.values) > block_bytes_max) {
    return Error(ErrorKind::too_large, "a value has at most 1 GiB");
  }
  return {};
}

}  // namespace

protocol::NewBlocksView names_of(const PutRequest& request, std::uint32_t ns_id, std::size_t first,
                                 std::size_t count, protocol::Extras& extras) {
  protocol::NewBlocksView names{.ns = ns_id,
                                .group = request.names.group,
                                .durable = request.options.durable,
                                .pinned = request.options.pinned};
  if (request.options.ttl) {
    names.ttl_ms =
        static_cast<std::uint64_t>(std::max<std::int64_t>(request.options.ttl->count(), 0));
  }
  if (!is_tokens(request)) {
    names.by = protocol::SelectBy::key;
    names.keys = request.names.keys.subspan(first, count);
    return names;
  }
  const std::size_t each = request.ns.block_tokens();
  names.parent = request.names.parent;
  names.tokens = request.names.tokens.subspan(first * each, count * each);
  if (request.names.extra_keys != nullptr) {
    extras.clear();
    for (const auto& [index, keys] : *request.names.extra_keys) {
      if (index < first || index >= first + count) continue;
      extras.emplace(index - static_cast<std::uint32_t>(first), keys);
    }
    names.extras = &extras;
  }
  return names;
}

Result<Reservation> reserve_slots(Session& session, const ConnectionPtr& connection,
                                  const Namespace& ns, std::uint32_t count, std::uint64_t bytes,
                                  std::uint16_t group, const Session::Call& call) {
  KV_ASSIGN(const std::uint32_t id, session.id_of(ns, *connection, call));
  Outgoing request{.verb = Verb::reserve};
  request.body.set_u64("ns", id).set_u64("group", group).set_u64("slots", count);
  if (bytes != 0) request.body.set_u64("bytes", bytes);
  KV_ASSIGN(const auto reply, session.ask(*connection, std::move(request), call));
  const auto refs = protocol::get_slots(reply);
  if (!refs) return connection->fail(refs.error());
  auto state = std::make_unique<ReservationState>();
  state->connection = connection;
  for (const protocol::StagingRef& ref : *refs) state->ids.push_back(ref.slot);
  Reservation reservation(std::move(state));  // from here on given back on every error
  if (connection->inline_only()) {
    return Error(ErrorKind::unsupported, "staging memory can't be mapped here");
  }
  const std::uint64_t wanted = bytes != 0 ? bytes : ns.block_bytes(group);
  if (refs->size() != count) {
    return connection->fail(Error(ErrorKind::protocol, "RESERVE gave another number of slots"));
  }
  for (const protocol::StagingRef& ref : *refs) {
    auto chunk = connection->chunks().find(ref.chunk);
    if (!chunk) return connection->fail(chunk.error());
    const auto place = (*chunk)->locate(ref.offset, ref.bytes);
    if (!place) return connection->fail(place.error());
    if ((*chunk)->kind() != protocol::ChunkKind::staging || ref.bytes < wanted) {
      return connection->fail(Error(ErrorKind::protocol, "RESERVE gave slots that can't be used"));
    }
    Session::state(reservation)->slots.push_back(place->bytes);
    Session::state(reservation)->chunks.push_back(std::move(chunk).value());
  }
  return reservation;
}

Result<std::uint64_t> send_commit(Session& session, Connection& connection, Reservation reservation,
                                  std::size_t count, const protocol::NewBlocksView& blocks,
                                  const Session::Call& call) {
  ReservationState& state = *Session::state(reservation);
  protocol::NewBlocksView names = blocks;
  names.slots = std::span(state.ids).first(count);
  Outgoing request{.verb = Verb::commit};
  KV_TRY(protocol::encode_new_blocks(names, request.body, request.payload));
  KV_ASSIGN(const std::uint64_t id, session.send(connection, std::move(request), call));
  // The daemon takes these back, whatever it answers.
  state.ids.erase(state.ids.begin(), state.ids.begin() + static_cast<std::ptrdiff_t>(count));
  return id;
}

Result<Stored> finish_commit(Connection& connection, std::uint64_t id, std::size_t blocks,
                             const Session::Call& call) {
  KV_ASSIGN(const auto reply, connection.wait(id, call.deadline()));
  auto stored = decode_stored(reply, blocks);
  if (!stored) return connection.fail(stored.error());
  return stored;
}

Result<Stored> put_blocks(Session& session, const PutRequest& request, const Session::Call& call) {
  KV_TRY(check_names(request));
  if (request.values.empty()) return Stored{};
  KV_ASSIGN(const ConnectionPtr connection, session.connection(call));
  KV_ASSIGN(const std::uint32_t id, session.id_of(request.ns, *connection, call));
  Batches batches(request, id);
  if (!connection->inline_only() && bytes_in(request.values) > small_put_bytes) {
    auto stored = StagedPut(session, connection, request, batches, call).run();
    const bool unmappable = !stored && stored.error().kind() == ErrorKind::unsupported &&
                            connection->inline_only() && batches.next() == 0;
    if (!unmappable) return stored;
  }
  return put_inline(session, *connection, request, batches, call);
}

}  // namespace kvstrata::client
