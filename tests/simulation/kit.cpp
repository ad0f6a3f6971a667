#include "tests/simulation/kit.h"

#include <cstdlib>
#include <filesystem>

#include "kvstrata/check.h"
#include "storage/segment/record.h"

namespace kvstrata::simulation {

Place::Place() {
  std::string name = (std::filesystem::temp_directory_path() / "kvstrata-sim-XXXXXX").string();
  KV_CHECK(mkdtemp(name.data()) != nullptr, "a temporary directory");
  path_ = name;
}

Place::~Place() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

bool Bench::start() {
  error_.reset();
  Result<std::unique_ptr<storage::Store>> opened = machine.open_store(sizes);
  if (!opened) {
    error_ = opened.error();
    return false;
  }
  store = std::move(*opened);
  store->on_dropped([this](std::span<const BlockKey> keys) {
    const std::lock_guard lock(mutex_);
    for (const BlockKey& dropped : keys) dropped_.insert(number_of(dropped.digest));
  });
  NamespaceSpec spec;
  spec.tenant = "tenant";
  spec.model.fingerprint = "weights";
  const Result<NamespaceId> ns = store->register_namespace(spec);
  if (!ns) {
    error_ = ns.error();
    store.reset();
    return false;
  }
  ns_ = *ns;
  return true;
}

void Bench::stop() {
  store.reset();
  machine.index().clear_faults();
  machine.transfers().clear();
  machine.switch_on();
}

bool Bench::dropped(int n) {
  const std::lock_guard lock(mutex_);
  return dropped_.contains(n);
}

Bench::Ended Bench::append(int n, std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    dropped_.erase(n);
  }
  const ByteVector content = content_of({0, n}, 0, bytes);
  storage::AppendRequest request;
  request.key = key(n);
  request.identity = identity_of({0, n});
  request.frame = storage::FrameBuffer(bytes);
  std::ranges::copy(content, request.frame.data());
  request.frame_bytes = bytes;
  request.raw_bytes = bytes;
  request.payload_xxh3 = storage::checksum(content);
  const auto ended = std::make_shared<std::promise<Status>>();
  const Status queued =
      store->append(std::move(request), [ended](const Result<storage::IndexEntry>& entry) {
        ended->set_value(entry ? Status() : entry.error());
      });
  if (!queued) ended->set_value(queued);
  return ended->get_future();
}

Status Bench::put(int n, std::uint64_t bytes) {
  Ended ended = append(n, bytes);
  KV_TRY(store->flush());
  return ended.get();
}

std::vector<Status> Bench::put_burst(int first, int count,
                                     const std::function<std::uint64_t(int)>& bytes_of) {
  machine.hold_writer();
  std::vector<Ended> appended;
  for (int n = first; n < first + count; ++n) appended.push_back(append(n, bytes_of(n)));
  machine.let_writer_go();
  (void)store->flush();
  std::vector<Status> ended;
  for (Ended& one : appended) ended.push_back(one.get());
  return ended;
}

Bench::Answer Bench::get(int n, std::uint64_t bytes) {
  const BlockKey wanted = key(n);
  std::optional<storage::IndexEntry> entry;
  if (!store->find({&wanted, 1}, {&entry, 1})) return Answer::unreadable;
  if (!entry) return Answer::absent;
  std::promise<Result<storage::ReadRecord>> ended;
  store->read(wanted, *entry,
              [&](Result<storage::ReadRecord> record) { ended.set_value(std::move(record)); });
  const Result<storage::ReadRecord> record = ended.get_future().get();
  if (!record) return Answer::unreadable;
  const bool same = std::ranges::equal(record->frame, content_of({0, n}, 0, bytes)) &&
                    std::ranges::equal(record->identity, identity_of({0, n}));
  return same ? Answer::intact : Answer::wrong;
}

}  // namespace kvstrata::simulation
