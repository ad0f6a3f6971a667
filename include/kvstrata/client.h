// The C++ client: stores and fetches blocks of a kvstratad over a Unix socket (blocks move through
// shared memory) or TCP (blocks move in the messages). A complete program: doc/client-cpp.md.
//
// Threads: a Client with everything that came from it (Lease, BlockView, Reservation) is used by
// one thread at a time; only Client::cancel() may be called from any thread at any time.
//
// Time: no call takes longer than ClientOptions::request_timeout, connecting included (looking a
// host name up is the system's business and not counted).
//
// Restarts: a call that finds the connection gone connects again and registers its namespace again.
// A call during which the connection breaks fails with `unavailable`. What belonged to the old
// connection stays ended: leases, reservations, views into shared memory say `lease_expired`.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/clock.h"
#include "kvstrata/keys.h"
#include "kvstrata/protocol.h"
#include "kvstrata/result.h"

namespace kvstrata {

namespace client {  // the inside, in daemon/client
class BlockMemory;
class Session;
struct LeaseState;
struct Registration;
struct ReservationState;
}  // namespace client

struct ClientOptions {
  std::string address = {};  ///< "unix:/path", "tcp:host:port", "tcp:[::1]:7410"
  std::string token = {};    ///< empty: none
  std::string name = "kvstrata-cpp";
  Milliseconds connect_timeout{2'000};   ///< connect() waits so long for a daemon to be there
  Milliseconds request_timeout{30'000};  ///< of every call, 1 ms..600 s
  bool shared_memory = true;             ///< false: blocks come in the messages also over Unix
  bool prefault = true;                  ///< take a slot's page faults at once, when first seen
};

struct ServerInfo {
  std::string server;                ///< name/version
  std::string tenant;                ///< whom the token (or the socket) stands for
  std::string store;                 ///< id of the store, hex
  std::array<std::byte, 16> boot{};  ///< differs each start of the daemon
  bool admin = false;
  bool shared_memory = false;  ///< whether blocks move through shared memory on this connection
};

/// A Namespace is one model's cache of this tenant, as registered. A cheap handle, copied freely.
class Namespace {
 public:
  std::uint32_t id() const;
  const Hash256& hash() const;  ///< h[-1], the parent of a sequence's first block
  std::uint64_t weight_epoch() const;
  const NamespaceSpec& spec() const;
  std::uint32_t block_tokens() const { return spec().model.block_tokens; }
  /// Bytes of one block of `group`; 0 where values have any size (a namespace of opaque keys).
  std::uint64_t block_bytes(std::uint16_t group = 0) const;

 private:
  friend class client::Session;
  explicit Namespace(std::shared_ptr<client::Registration> registration)
      : registration_(std::move(registration)) {}
  std::shared_ptr<client::Registration> registration_;
};

/// Extra keys (an image's hash, for example) by the index of the block they touch.
using ExtraKeys = std::map<std::uint32_t, std::vector<std::string>>;

/// A Selection names stored blocks. It refers to its arrays; they must outlive the call it is for.
struct Selection {
  enum class By : std::uint8_t { hash, tokens, key };
  By by = By::hash;
  std::span<const Hash256> hashes = {};  ///< a prefix, in order
  std::span<const std::uint32_t> tokens =
      {};                                  ///< from the sequence's start; only full blocks count
  std::span<const std::string> keys = {};  ///< opaque keys, 1..256 bytes each
  const ExtraKeys* extra_keys = nullptr;   ///< with tokens
  std::uint16_t group = 0;                 ///< layer group

  static Selection of_hashes(std::span<const Hash256> hashes, std::uint16_t group = 0) {
    return {.by = By::hash, .hashes = hashes, .group = group};
  }
  static Selection of_tokens(std::span<const std::uint32_t> tokens, std::uint16_t group = 0) {
    return {.by = By::tokens, .tokens = tokens, .group = group};
  }
  static Selection of_keys(std::span<const std::string> keys) {
    return {.by = By::key, .keys = keys};
  }
};

/// A BlockView is one block where it lies (in shared memory, or in a buffer of the client), or the
/// reason why it is not there. In shared memory its bytes are those of the block only while
/// valid(): read, then ask valid(), and throw away what was read if the answer is no. copy_out()
/// does both.
class BlockView {
 public:
  /// For the client library: the block in `slot` of `memory` while that has `generation`.
  BlockView(std::shared_ptr<const client::BlockMemory> memory, std::uint32_t slot,
            std::uint64_t generation, ByteView bytes, std::uint64_t xxh3);
  explicit BlockView(Error error) : status_(std::move(error)) {}

  explicit operator bool() const { return status_.ok(); }
  const Status& status() const { return status_; }

  ByteView bytes() const { return bytes_; }
  std::uint64_t xxh3() const { return xxh3_; }  ///< XXH3-64 of bytes(), as the daemon states it
  bool valid() const;
  /// Fills `out`, which is at least as long as the block. `lease_expired` if the bytes changed
  /// meanwhile; then `out` is worthless.
  Status copy_out(MutableBytes out) const;
  /// `corrupt` if bytes() do not have the stated XXH3, `lease_expired` if they changed meanwhile.
  Status verify() const;

 private:
  Status status_;
  std::shared_ptr<const client::BlockMemory> memory_;
  std::uint32_t slot_ = 0;
  std::uint64_t generation_ = 0;
  ByteView bytes_;
  std::uint64_t xxh3_ = 0;
};

/// A Lease keeps the blocks it covers readable until it is released (by its destructor), expires,
/// or its connection ends. Default-constructed or moved from: covers nothing.
class Lease {
 public:
  Lease();
  explicit Lease(std::unique_ptr<client::LeaseState> state);
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();

  std::uint32_t blocks() const { return static_cast<std::uint32_t>(tiers().size()); }
  std::span<const protocol::Tier> tiers() const;  ///< where each block was when it was found
  std::uint64_t id() const;                       ///< 0: covers nothing
  std::array<std::byte, 16> secret() const;       ///< with id(): for Client::attach elsewhere
  /// False once it was released, ran out by this process's clock, or its connection ended.
  bool alive() const;
  /// Starts a new period from now.
  Status renew(Milliseconds period);
  void release();

 private:
  friend class client::Session;
  std::unique_ptr<client::LeaseState> state_;
};

/// A lease and its blocks. With Client::get(prefix = false) blocks may be missing in between.
struct Fetched {
  Lease lease;
  std::vector<BlockView> blocks;
};

/// A Reservation is memory of the daemon to write new blocks into, one slot a block. Given back by
/// the destructor unless committed.
class Reservation {
 public:
  explicit Reservation(std::unique_ptr<client::ReservationState> state);
  Reservation(Reservation&&) noexcept;
  Reservation& operator=(Reservation&&) noexcept;
  ~Reservation();

  std::size_t size() const { return slots().size(); }
  std::span<const MutableBytes> slots() const;

 private:
  friend class client::Session;
  std::unique_ptr<client::ReservationState> state_;
};

/// What new blocks are called. It refers to its arrays; they must outlive the call it is for.
struct NewBlocks {
  std::span<const std::uint32_t> tokens = {};  ///< block_tokens for each block
  std::optional<Hash256> parent = {};          ///< digest of the block before; none: sequence start
  std::span<const std::string> keys = {};      ///< instead of tokens: opaque keys
  const ExtraKeys* extra_keys = nullptr;  ///< with tokens; indices count from the first new block
  std::uint16_t group = 0;
};

struct PutOptions {
  bool durable = false;  ///< answer when the blocks would survive a crash
  bool pinned = false;   ///< never evicted by the daemon itself
  std::optional<Milliseconds> ttl = {};
};

/// What became of each new block. `exists` (the same bytes were there) is success too.
struct Stored {
  std::uint64_t sequence = 0;  ///< for flush()
  std::vector<Hash256> hashes;
  std::vector<std::uint8_t> status;  ///< per block: 0 or an ErrorKind
  bool all_stored() const;
};

struct Existing {
  std::uint32_t blocks = 0;        ///< consecutive from the start
  std::vector<std::uint8_t> each;  ///< 1: present
};

struct Changed {
  std::uint32_t changed = 0;
  std::uint32_t missing = 0;
};

struct Removal {
  std::uint64_t removed_blocks = 0;
  std::uint64_t removed_bytes = 0;
  std::uint64_t kept_pinned = 0;
  std::uint64_t kept_leased = 0;  ///< removed when their lease ends
};

struct ClearOptions {
  enum class Scope : std::uint8_t { tenant, model };
  Scope scope = Scope::tenant;
  std::string fingerprint = {};  ///< with scope model
  bool host_only = false;        ///< leave what is on disk
  bool also_pinned = false;
};

struct Explanation {
  std::uint32_t blocks = 0;  ///< found
  std::uint32_t wanted = 0;
  std::string reason;
  std::string field;  ///< the first field that differs from a namespace that has it; may be empty
  std::string detail;
};

/// One page of LIST. `entries` are JSON objects, byte strings in hex; `next` is for the next call.
struct Listing {
  std::vector<std::string> entries;
  std::optional<ByteVector> next;
};

struct Verification {
  std::uint32_t checked = 0;
  std::uint32_t bad = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> bad_keys;
  std::optional<ByteVector> next;
};

/// Something that happened at the daemon, for a client that watches.
struct ClientEvent {
  std::string event;     ///< "stored", "removed", "epoch_changed", "draining", ...
  std::uint32_t ns = 0;  ///< stored, removed
  std::uint16_t group = 0;
  protocol::Tier tier = protocol::Tier::none;
  std::vector<Hash256> hashes;
  std::string fingerprint;  ///< epoch_changed
  std::uint64_t weight_epoch = 0;
};

/// Shards of one model that must be loaded to the same length.
struct GroupMember {
  Namespace ns;
  Selection selection;
};

class Client {
 public:
  static constexpr Milliseconds default_lease{10'000};

  static Result<Client> connect(ClientOptions options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();  ///< closes the connection: leases end, reservations are given back

  const ServerInfo& server() const;

  /// `spec.tenant` and `spec.weight_epoch` are the daemon's to say and are filled in.
  Result<Namespace> register_model(NamespaceSpec spec);
  /// A namespace of this tenant that list_namespaces() names, for tools that know its id alone.
  /// Outdated ones (their weights changed) can be listed, verified and cleared.
  Result<Namespace> open_namespace(std::uint32_t id);

  // ---- reading
  /// The longest stored prefix of what is selected; no block stored: an empty lease.
  Result<Lease> lookup(const Namespace& ns, const Selection& selection,
                       Milliseconds period = default_lease);
  /// One length for all members, each block up to it stored for every one; one lease each.
  Result<std::vector<Lease>> group_lookup(std::span<const GroupMember> members,
                                          Milliseconds period = default_lease);
  Result<Existing> exists(const Namespace& ns, const Selection& selection);
  /// Blocks [first, first + count) of the lease. `tokens`: empty, or the ids expected for exactly
  /// these blocks, which the daemon compares.
  Result<std::vector<BlockView>> load(const Lease& lease, std::uint32_t first, std::uint32_t count,
                                      std::span<const std::uint32_t> tokens = {});
  /// The same into memory of the caller, outs[i] for block first + i. Over TCP bytes are received
  /// in place. Where a status is not ok, that destination is worthless.
  Result<std::vector<Status>> load_into(const Lease& lease, std::uint32_t first,
                                        std::span<const MutableBytes> outs);
  /// lookup() and load() in one round trip. `prefix`: stop at the first miss; by default true for
  /// hashes and tokens, false for keys.
  Result<Fetched> get(const Namespace& ns, const Selection& selection,
                      std::optional<bool> prefix = {}, Milliseconds period = default_lease);
  /// The same into memory of the caller, outs[i] for block i; a status each, `not_found` for a
  /// miss.
  Result<std::vector<Status>> get_into(const Namespace& ns, const Selection& selection,
                                       std::span<const MutableBytes> outs);
  /// One opaque value; `not_found` if there is none.
  Result<Fetched> get_value(const Namespace& ns, const std::string& key);
  /// Bytes of the value, which is now at the front of `out`; `too_large` if it does not fit.
  Result<std::size_t> get_value_into(const Namespace& ns, const std::string& key, MutableBytes out);
  /// A lease another connection of this tenant holds becomes this client's too.
  Result<Lease> attach(std::uint64_t lease_id, const std::array<std::byte, 16>& secret);

  // ---- writing
  /// Slots for `count` new blocks. `bytes` is for opaque values only. Shared memory only:
  /// `unsupported` elsewhere; put() works everywhere.
  Result<Reservation> reserve(const Namespace& ns, std::uint32_t count, std::uint64_t bytes = 0,
                              std::uint16_t group = 0);
  /// The first slots of the reservation become visible under these names; all slots are given back.
  /// `lengths`: opaque values only, bytes used of each slot.
  Result<Stored> commit(const Namespace& ns, Reservation reservation, const NewBlocks& names,
                        const PutOptions& options = {},
                        std::span<const std::uint64_t> lengths = {});
  /// Copies whole blocks in, through shared memory where there is some.
  Result<Stored> put(const Namespace& ns, const NewBlocks& names, std::span<const ByteView> blocks,
                     const PutOptions& options = {});
  Result<Stored> put_value(const Namespace& ns, const std::string& key, ByteView value,
                           const PutOptions& options = {});
  /// Returns the sequence up to which all is durable. No `sequence`: everything visible now.
  Result<std::uint64_t> flush(std::optional<std::uint64_t> sequence = {});

  // ---- keeping and removing
  Result<Changed> pin(const Namespace& ns, const Selection& selection, bool pinned);
  /// 0 ms: never expires.
  Result<Changed> set_ttl(const Namespace& ns, const Selection& selection, Milliseconds ttl);
  /// `descendants`: and all blocks that continue them.
  Result<Removal> remove(const Namespace& ns, const Selection& selection, bool descendants = true);
  Result<Removal> clear(const ClearOptions& options);
  Result<Removal> clear(const Namespace& ns, const ClearOptions& options = {});
  /// The last block selected and all that continue it.
  Result<Removal> clear_prefix(const Namespace& ns, const Selection& selection,
                               const ClearOptions& options = {});
  Result<Removal> evict(std::uint64_t bytes);  ///< from the host tier of this tenant
  Result<std::uint64_t> bump_weight_epoch(const std::string& fingerprint);

  // ---- looking
  Result<std::string> stats();  ///< JSON, doc/metrics.md
  Result<Explanation> explain(const Namespace& ns, const Selection& selection);
  Result<Listing> list_namespaces();
  Result<Listing> list_blocks(const Namespace& ns, std::uint32_t limit,
                              const std::optional<ByteVector>& after = {});
  Result<std::string> inspect(const Namespace& ns, const Hash256& block, std::uint16_t group = 0);
  Result<Verification> verify(const Namespace& ns, std::uint32_t limit,
                              const std::optional<ByteVector>& after = {});
  /// The store counted anew, beside what it believes. JSON, doc/wire-protocol.md under VERIFY.
  Result<std::string> audit();

  // ---- events, cancelling
  /// `on_event` is called from within calls of this client, process_events() among them; it must
  /// not call the client.
  Status watch(std::function<void(const ClientEvent&)> on_event);
  /// Handles what the daemon sent unasked, without waiting. A client that makes no calls for
  /// seconds should call it now and then: the daemon disconnects those that don't unmap memory it
  /// asked back within 5 s. `poll_fd()` is readable when there is something; -1: not connected.
  Status process_events();
  int poll_fd() const;
  /// Any thread: the call now in progress, if any, ends soon, most often with `cancelled`.
  void cancel();

 private:
  explicit Client(std::unique_ptr<client::Session> session);
  std::unique_ptr<client::Session> session_;
};

}  // namespace kvstrata
