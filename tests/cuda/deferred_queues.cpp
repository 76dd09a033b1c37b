#include "tests/cuda/deferred_queues.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/errors.h"

namespace trainer::cuda {

void DeferredQueues::begin_pass(Work work) {
  const std::int64_t copies = num_copied_ + static_cast<std::int64_t>(copies_.size());
  add([this, copies, work = std::move(work)] {
    run_copies_to(copies);
    work();
  });
  last_pass_ = num_added();
}

void DeferredQueues::copy_ahead(Work work) { copies_.push_back({last_pass_, std::move(work)}); }

std::int64_t DeferredQueues::mark() {
  constexpr std::size_t most_marks = 16;
  marks_.push_back(num_added());
  if (marks_.size() > most_marks) marks_.pop_front();
  return marks_.back();
}

void DeferredQueues::wait_for(std::int64_t mark) {
  require_internal(std::find(marks_.begin(), marks_.end(), mark) != marks_.end(),
                   "only the last 16 marks are waited for");
  run_kernels_to(mark);
}

void DeferredQueues::finish_copy_ahead() { run_copies_to(num_copied_ + static_cast<std::int64_t>(copies_.size())); }

void DeferredQueues::synchronize() {
  run_kernels_to(num_added());
  finish_copy_ahead();
  for (const StreamKind stream : {StreamKind::to_host, StreamKind::to_device, StreamKind::branch, StreamKind::ranks})
    run_to({stream, stream_of(stream).num_added()});
}

std::int32_t DeferredQueues::make_event() {
  events_.emplace_back();
  return static_cast<std::int32_t>(events_.size()) - 1;
}

void DeferredQueues::record(std::int32_t event, StreamKind stream) {
  events_[static_cast<std::size_t>(event)] = {
      stream, stream == StreamKind::kernels ? num_added() : stream_of(stream).num_added()};
}

void DeferredQueues::wait(StreamKind stream, std::int32_t event) {
  add_to(stream, [this, place = events_[static_cast<std::size_t>(event)]] { run_to(place); });
}

void DeferredQueues::copy(StreamKind stream, void* destination, const void* source, std::int64_t num_bytes) {
  add_to(stream, [=] { std::memcpy(destination, source, static_cast<std::size_t>(num_bytes)); });
}

void DeferredQueues::add_to(StreamKind stream, Work work) {
  if (stream == StreamKind::kernels) {
    add(std::move(work));
    return;
  }
  stream_of(stream).work.push_back(std::move(work));
  if (timing_ == CopyTiming::early) run_to({stream, stream_of(stream).num_added()});
}

void DeferredQueues::run_to(const Place& place) {
  if (place.stream == StreamKind::kernels) {
    run_kernels_to(place.count);
    return;
  }
  Stream& stream = stream_of(place.stream);
  while (stream.num_run < place.count) {
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    ++stream.num_run;
    work();
  }
}

void DeferredQueues::run_kernels_to(std::int64_t count) {
  while (num_run_ < count) {
    // Off the queue first: after a fault the next one follows.
    const Work work = std::move(kernels_.front());
    kernels_.pop_front();
    ++num_run_;
    work();
  }
}

void DeferredQueues::run_copies_to(std::int64_t count) {
  while (num_copied_ < count) {
    const CopyAhead copy = std::move(copies_.front());
    copies_.pop_front();
    ++num_copied_;
    run_kernels_to(copy.behind);
    copy.work();
  }
}

}  // namespace trainer::cuda
