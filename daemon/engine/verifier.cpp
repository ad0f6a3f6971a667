#include "daemon/engine/verifier.h"

#include <memory>
#include <utility>
#include <vector>

#include "daemon/engine/copy_hash.h"

namespace kvstrata::daemon {

namespace {

constexpr std::uint64_t bytes_in_flight_max = 64_MiB;

/// A page being verified. Control thread only.
class Verification : public std::enable_shared_from_this<Verification> {
 public:
  using Entries = std::vector<std::pair<BlockKey, storage::IndexEntry>>;

  Verification(Core& core, const Namespace& ns, Entries entries, std::size_t limit,
               Done<Verified> done)
      : core_(core), ns_(ns), entries_(std::move(entries)), done_(std::move(done)) {
    if (entries_.size() == limit) result_.next = entries_.back().first;
  }

  void pump() {
    while (next_ < entries_.size() &&
           (bytes_in_flight_ == 0 ||
            bytes_in_flight_ + entries_[next_].second.raw_bytes <= bytes_in_flight_max)) {
      bytes_in_flight_ += entries_[next_].second.raw_bytes;
      read(next_++);
    }
    if (next_ == entries_.size() && result_.checked == entries_.size() && done_) {
      std::exchange(done_, nullptr)(std::move(result_));
    }
  }

 private:
  void read(std::size_t index) {
    const auto& [key, entry] = entries_[index];
    core_.store->read(
        key, entry, [self = shared_from_this(), index](Result<storage::ReadRecord> record) {
          auto kept = std::make_shared<Result<storage::ReadRecord>>(std::move(record));
          self->core_.workers->post([self, index, kept] {
            const Status status = self->check(index, *kept);
            self->core_.to_control([self, index, status] { self->finish(index, status); });
          });
        });
  }

  Status check(std::size_t index, const Result<storage::ReadRecord>& record) const {
    if (!record) return record.error();
    const auto& [key, entry] = entries_[index];
    const auto parameters = ns_tables(key.group)->find(entry.table);
    const codec::BlockShape shape = ns_.shape(key.group, entry.raw_bytes);
    ByteVector payload(entry.raw_bytes);
    KV_TRY(codec::decode_frame(shape, parameters.get(), record->frame, payload));
    if (hash_payload(payload) == entry.payload_xxh3) return {};
    return Error(ErrorKind::corrupt, "the payload's hash is not that of the bytes put");
  }

  std::shared_ptr<const CodecTables> ns_tables(std::uint16_t group) const {
    return ns_.is_opaque() ? ns_.opaque.tables : ns_.groups.at(group).tables;
  }

  void finish(std::size_t index, const Status& status) {
    const auto& [key, entry] = entries_[index];
    bytes_in_flight_ -= entry.raw_bytes;
    ++result_.checked;
    result_.bytes += entry.raw_bytes;
    // A block that was removed while the page was read is no fault.
    if (!status && status.error().kind() != ErrorKind::not_found) {
      ++result_.bad;
      result_.bad_keys.push_back(key.digest.hex() + ": " + status.error().message());
    }
    pump();
  }

  Core& core_;
  const Namespace& ns_;
  Entries entries_;
  Done<Verified> done_;
  Verified result_;
  std::size_t next_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
};

}  // namespace

void verify_page(Core& core, const Namespace& ns, std::optional<BlockKey> after, std::size_t limit,
                 Done<Verified> done) {
  core.on_worker(
      [&core, id = ns.record.id, after, limit] { return core.store->list(id, after, limit); },
      [&core, &ns, limit, done = std::move(done)](Result<Verification::Entries> entries) {
        if (!entries) {
          done(entries.error());
          return;
        }
        std::make_shared<Verification>(core, ns, std::move(*entries), limit, done)->pump();
      });
}

}  // namespace kvstrata::daemon
