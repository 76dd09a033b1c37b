#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/ops/side_streams.h"
#include "engine/device/device.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// Exchanges that are started (Note [Started exchanges] in engine/ops/finish_exchange.h), on a stream of their own:
/// each behind the kernels queued before it. None is recorded.
class StartedExchanges {
 public:
  /// `queue_on` says where kernels are queued from now on.
  StartedExchanges(SideStreams& streams, std::function<void(StreamKind)> queue_on)
      : streams_(streams), queue_on_(std::move(queue_on)), ready_(streams.make_event()) {}

  /// `queue` queues the exchange.
  void start(const std::function<void()>& queue);
  /// Kernels queued from now on wait for all but the last `num_left` that were started.
  void finish(std::int64_t num_left);

 private:
  SideStreams& streams_;
  std::function<void(StreamKind)> queue_on_;
  std::int32_t ready_;              ///< in the stream of kernels: what the exchange may read is there
  std::vector<std::int32_t> ends_;  ///< of those that were started since all had been waited for
  std::int64_t num_started_ = 0;    ///< since then
};

/// `exchange`, which queues all of `op` on one stream, started where `op` is; else behind all that were.
std::unique_ptr<Kernel> make_exchange(const Op& op, std::unique_ptr<Kernel> exchange, StartedExchanges& started);

}  // namespace trainer::cuda
