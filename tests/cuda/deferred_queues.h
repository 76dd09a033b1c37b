#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "cuda/ops/side_streams.h"

namespace trainer::cuda {

/// When copies of activations, and kernels beside others, run: as late as something waits for them, or as soon as they
/// are queued and nothing holds them back, which may be before the kernels in front of them.
enum class CopyTiming : std::uint8_t { late, early };

/// The order of a device with one stream of kernels, run as late as it may be, one of copies ahead, and those of
/// SideStreams.
class DeferredQueues final : public SideStreams {
 public:
  using Work = std::function<void()>;

  explicit DeferredQueues(CopyTiming timing = CopyTiming::late) : timing_(timing) {}

  void add(Work work) { kernels_.push_back(std::move(work)); }
  void add_to(StreamKind stream, Work work);
  /// Behind the copies ahead so far; the copies ahead that follow are behind it.
  void begin_pass(Work work);
  void copy_ahead(Work work);

  /// A mark behind all kernels so far.
  std::int64_t mark();
  /// Throws InternalError for a mark that 16 have followed.
  void wait_for(std::int64_t mark);
  void finish_copy_ahead();
  void synchronize();

  std::int32_t make_event() override;
  void record(std::int32_t event, StreamKind stream) override;
  void wait(StreamKind stream, std::int32_t event) override;
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t num_bytes) override;

 private:
  struct CopyAhead {
    std::int64_t behind;  // how many kernels come first
    Work work;
  };
  struct Stream {
    std::deque<Work> work;
    std::int64_t num_run = 0;
    std::int64_t num_added() const { return num_run + static_cast<std::int64_t>(work.size()); }
  };
  struct Place {
    StreamKind stream = StreamKind::kernels;
    std::int64_t count = 0;  // how much of the stream is in front of it
  };
  std::int64_t num_added() const { return num_run_ + static_cast<std::int64_t>(kernels_.size()); }
  void run_kernels_to(std::int64_t count);
  void run_copies_to(std::int64_t count);
  Stream& stream_of(StreamKind stream) { return streams_[static_cast<std::size_t>(stream)]; }
  void run_to(const Place& place);

  const CopyTiming timing_;
  std::deque<Work> kernels_;
  std::int64_t num_run_ = 0;
  std::deque<CopyAhead> copies_;
  std::int64_t num_copied_ = 0;
  std::int64_t last_pass_ = 0;  // kernels up to it
  std::deque<std::int64_t> marks_;
  std::array<Stream, num_stream_kinds> streams_;  // that of kernels stays empty
  std::vector<Place> events_;
};

}  // namespace trainer::cuda
