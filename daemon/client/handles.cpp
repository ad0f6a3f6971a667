#include "daemon/client/handles.h"

#include "kvstrata/checksum.h"

namespace kvstrata {

namespace client {

namespace {
constexpr std::uint64_t period_ms_max = 600'000;
}

Result<Lease> decode_lease(const protocol::Body& body, std::shared_ptr<Connection> connection,
                           std::uint64_t block_bytes, Milliseconds request_timeout) {
  auto state = std::make_unique<LeaseState>();
  KV_ASSIGN(state->id, body.get_u64("lease", 0, UINT64_MAX));
  if (state->id == 0) return Lease();
  KV_ASSIGN(const ByteView secret, body.get_bytes_exact("secret", state->secret.size()));
  std::memcpy(state->secret.data(), secret.data(), secret.size());
  KV_ASSIGN(const ByteView tiers, body.get_bytes("tiers", protocol::blocks_per_request_max));
  for (const std::byte tier : tiers) state->tiers.push_back(static_cast<protocol::Tier>(tier));
  KV_ASSIGN(const std::uint64_t expires_in_ms, body.get_u64("expires_in_ms", 0, 2 * period_ms_max));
  state->expires = Clock::system().now() + Milliseconds(expires_in_ms);
  state->connection = std::move(connection);
  state->block_bytes = block_bytes;
  state->request_timeout = request_timeout;
  return Lease(std::move(state));
}

void abort_slots(ReservationState& state) {
  if (state.ids.empty() || state.connection->closed()) return;
  Outgoing request{.verb = protocol::Verb::abort};
  request.body.set_u64s("slots", state.ids);
  state.connection->post(request, Clock::system().now() + farewell_limit);
  state.ids.clear();
}

}  // namespace client

// ---- Namespace

std::uint32_t Namespace::id() const {
  return registration_->id;
}
const Hash256& Namespace::hash() const {
  return registration_->hash;
}
std::uint64_t Namespace::weight_epoch() const {
  return registration_->spec.weight_epoch;
}
const NamespaceSpec& Namespace::spec() const {
  return registration_->spec;
}

std::uint64_t Namespace::block_bytes(std::uint16_t group) const {
  return group < registration_->block_bytes.size() ? registration_->block_bytes[group] : 0;
}

// ---- BlockView

BlockView::BlockView(std::shared_ptr<const client::BlockMemory> memory, std::uint32_t slot,
                     std::uint64_t generation, ByteView bytes, std::uint64_t xxh3)
    : memory_(std::move(memory)),
      slot_(slot),
      generation_(generation),
      bytes_(bytes),
      xxh3_(xxh3) {}

bool BlockView::valid() const {
  return status_.ok() && memory_ != nullptr && memory_->holds(slot_, generation_);
}

Status BlockView::copy_out(MutableBytes out) const {
  KV_TRY(status_);
  if (out.size() < bytes_.size()) {
    return Error(ErrorKind::too_large, "the block has " + std::to_string(bytes_.size()) +
                                           " bytes, there is room for " +
                                           std::to_string(out.size()));
  }
  const Error expired(ErrorKind::lease_expired, "the slot holds another block by now");
  if (!valid()) return expired;
  if (!bytes_.empty()) std::memcpy(out.data(), bytes_.data(), bytes_.size());
  if (!valid()) return expired;
  return {};
}

Status BlockView::verify() const {
  KV_TRY(status_);
  const std::uint64_t found = kvstrata::xxh3(bytes_);
  if (!valid()) return Error(ErrorKind::lease_expired, "the slot holds another block by now");
  if (found != xxh3_) return Error(ErrorKind::corrupt, "the block does not have its checksum");
  return {};
}

// ---- Lease

Lease::Lease() = default;
Lease::Lease(std::unique_ptr<client::LeaseState> state) : state_(std::move(state)) {}
Lease::Lease(Lease&&) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
  }
  return *this;
}

Lease::~Lease() {
  release();
}

std::span<const protocol::Tier> Lease::tiers() const {
  return state_ ? std::span<const protocol::Tier>(state_->tiers)
                : std::span<const protocol::Tier>();
}

std::uint64_t Lease::id() const {
  return state_ ? state_->id : 0;
}

std::array<std::byte, 16> Lease::secret() const {
  return state_ ? state_->secret : std::array<std::byte, 16>{};
}

bool Lease::alive() const {
  return state_ && !state_->connection->closed() && Clock::system().now() < state_->expires;
}

Status Lease::renew(Milliseconds period) {
  if (!state_ || state_->connection->closed()) {
    return Error(ErrorKind::lease_expired, "the lease ended");
  }
  client::Outgoing request{.verb = protocol::Verb::renew};
  request.body.set_u64("lease", state_->id);
  request.body.set_u64("lease_ms",
                       static_cast<std::uint64_t>(std::max<std::int64_t>(period.count(), 0)));
  const MonotonicTime now = Clock::system().now();
  KV_ASSIGN(const auto reply, state_->connection->call(request, now + state_->request_timeout));
  KV_ASSIGN(const std::uint64_t expires_in_ms,
            reply.get_u64("expires_in_ms", 0, 2 * client::period_ms_max));
  state_->expires = now + Milliseconds(expires_in_ms);
  return {};
}

void Lease::release() {
  if (!state_) return;
  if (!state_->connection->closed()) {
    client::Outgoing request{.verb = protocol::Verb::release};
    request.body.set_u64s("leases", std::span(&state_->id, 1));
    state_->connection->post(request, Clock::system().now() + client::farewell_limit);
  }
  state_.reset();
}

// ---- Reservation

Reservation::Reservation(std::unique_ptr<client::ReservationState> state)
    : state_(std::move(state)) {}
Reservation::Reservation(Reservation&&) noexcept = default;

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    if (state_) client::abort_slots(*state_);
    state_ = std::move(other.state_);
  }
  return *this;
}

Reservation::~Reservation() {
  if (state_) client::abort_slots(*state_);
}

std::span<const MutableBytes> Reservation::slots() const {
  return state_ ? std::span<const MutableBytes>(state_->slots) : std::span<const MutableBytes>();
}

}  // namespace kvstrata
