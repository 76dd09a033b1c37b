#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cuda/ops/side_streams.h"
#include "engine/device/device.h"
#include "engine/ops/op.h"
#include "engine/rank_layout.h"

namespace trainer::cuda {

struct CudaContext;

/// Exchanges that are started (Note [Started exchanges] in engine/ops/finish_exchange.h), on a stream of their own:
/// each behind the kernels queued before it. None is recorded. Those of one group of ranks run in their order, started
/// or not, since its communicator is one.
class StartedExchanges {
 public:
  /// `queue_on` says where kernels are queued from now on.
  StartedExchanges(SideStreams& streams, std::function<void(StreamKind)> queue_on)
      : streams_(streams), queue_on_(std::move(queue_on)), ready_(streams.make_event()) {}

  /// `queue` queues the exchange of these operands in the communicator of `ranks`.
  void start(const RankGroup& ranks, const OperandAddresses& operands, const std::function<void()>& queue);
  /// Kernels queued from now on wait for the last that was started with one of these operands, and those before it.
  void finish(std::span<void* const> operands);
  /// For the last that was started in that communicator.
  void finish(const RankGroup& ranks);

 private:
  SideStreams& streams_;
  std::function<void(StreamKind)> queue_on_;
  struct Started {
    std::int32_t end = 0;  ///< an event behind it
    RankGroup ranks;
    std::vector<void*> operands;
  };
  /// That the first so many have been waited for.
  void wait_for(std::size_t count);

  std::int32_t ready_;                ///< in the stream of kernels: what the exchange may read is there
  std::vector<Started> started_;      ///< that have not been waited for
  std::vector<std::int32_t> unused_;  ///< events
};

/// `exchange`, which queues all of `op` on one stream, started where `op` is; else behind those of its communicator
/// that were.
std::unique_ptr<Kernel> make_exchange(const Op& op, std::unique_ptr<Kernel> exchange, CudaContext& context);

}  // namespace trainer::cuda
