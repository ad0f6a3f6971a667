#include "storage/io_queue.h"

#include <algorithm>

#include "kvstrata/check.h"

namespace kvstrata::storage {

namespace {
// A back end that can't tell what became of its requests so often in a row has lost buffers that
// the kernel may still write to; going on would be worse than ending.
constexpr int wait_errors_max = 1000;
constexpr Milliseconds drain_step{1000};
// The disk begins with the first requests while those that follow are still being prepared.
constexpr std::size_t staged_max = 2;
}  // namespace

IoQueue::~IoQueue() {
  KV_CHECK(in_flight_ == 0, "requests in flight at destruction");
}

void IoQueue::add(const IoRequest& request, Done done) {
  while (in_flight_ >= depth()) poll(1, drain_step);
  if (free_slots_.empty()) {
    free_slots_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const std::uint64_t tag = free_slots_.back();
  free_slots_.pop_back();
  slots_[tag] = {std::move(done), next_number_++, request.bytes,
                 request.operation == IoOperation::read};
  staged_.push_back(request);
  staged_.back().tag = tag;
  ++in_flight_;
  bytes_in_flight_ += request.bytes;
  if (staged_.size() >= staged_max) submit();
}

void IoQueue::submit() {
  if (staged_.empty()) return;
  const std::vector<IoRequest> staged = std::exchange(staged_, {});
  if (device_.submit(staged)) return;
  // All or none: one bad request must not fail its neighbours.
  for (const IoRequest& request : staged) {
    if (Status status = device_.submit({&request, 1}); !status) end(request.tag, status);
  }
}

void IoQueue::end(std::uint64_t tag, const Status& status) {
  KV_CHECK(tag < slots_.size() && slots_[tag].done, "a completion without its request");
  const Done done = std::exchange(slots_[tag].done, nullptr);
  free_slots_.push_back(tag);
  --in_flight_;
  bytes_in_flight_ -= slots_[tag].bytes;
  done(status);
}

std::size_t IoQueue::poll(std::size_t minimum, Milliseconds timeout) {
  const std::size_t before = in_flight_;
  submit();
  const std::size_t already = before - in_flight_;
  if (in_flight_ == 0) return already;
  ended_.clear();
  const std::size_t wanted = minimum > already ? minimum - already : 0;
  for (int errors = 0; !device_.wait(ended_, wanted, timeout); ++errors) {
    KV_CHECK(errors < wait_errors_max, "a device lost its requests in flight");
  }
  const std::vector<IoCompletion> ended = std::exchange(ended_, {});
  for (const IoCompletion& completion : ended) end(completion.tag, completion.status);
  return already + ended.size();
}

void IoQueue::drain() {
  while (in_flight_ > 0) poll(in_flight_, drain_step);
}

bool IoQueue::writes_ended_before(std::uint64_t mark) const {
  return std::ranges::none_of(
      slots_, [&](const Slot& slot) { return slot.done && !slot.is_read && slot.number < mark; });
}

}  // namespace kvstrata::storage
