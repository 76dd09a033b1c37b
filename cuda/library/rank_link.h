#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "cuda/launch/stream.h"
#include "cuda/library/nccl.h"
#include "engine/device/communicator.h"
#include "engine/dtype.h"

namespace trainer::cuda {

// Note [Ranks of GPUs]
// ~~~~~~~~~~~~~~~~~~~~
// Ranks of GPUs meet as those of CPUs do, over TCP, and that connection remains: what they agree on (the next step, an
// interruption, who has failed) goes over it, and over it NCCL's name for the group is told. Tensors go through NCCL,
// on the stream of kernels, or beside it where that is but started (cuda/ops/started_exchanges.h).
//
// A kernel of NCCL that waits for a rank which is gone waits for ever, and so does the host behind it. So a thread
// looks at the watch over TCP (Note [A word from every rank] in engine/ranks/rank_watch.h) and at NCCL's own
// errors, and aborts: what waits ends, with whatever it has, and whoever waited for it asks check() before he believes
// in it. Therefore NCCL blocks: a call that does not come back is ended by the abort as well, and none comes back
// before its work is queued.
//
// NCCL connects ranks when they meet, not when they first add up (NCCL_RUNTIME_CONNECT=0), so that what it takes of the
// device can be measured before memory is planned; and the switch adds up nothing (NCCL_NVLS_ENABLE=0) where
// device.deterministic holds, for it does so in any order. Who sets these variables has his way.
//
// What is recorded has no call of NCCL. It can be captured, but whether it is must be the same on all ranks, and all
// must replay graphs of the same capture (NCCL's user guide, "Using NCCL with CUDA Graphs"), while here each rank
// records when its own addresses repeat: the last batch of an epoch gives some ranks another part and others not.
// So the executor records what lies between.

/// A tensor of the same number of elements on every rank.
struct RankTensor {
  void* data = nullptr;
  std::int64_t count = 0;
};

/// What ranks cut into as many slices of `count` elements as there are of them: whole on one side, the own slice on the
/// other, which may lie within the whole.
struct RankSlices {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t count = 0;
};

/// A range of a tensor that one rank has, or gets.
struct RankRange {
  const void* from = nullptr;
  void* to = nullptr;  ///< may be `from`
  std::int64_t count = 0;
  int rank = 0;
};

struct RankLinkOptions {
  int max_ctas = 0;  ///< blocks of a kernel, which is how many channels NCCL has; the same on all ranks
  bool deterministic = true;
  std::function<void()> use_device = [] {};  ///< makes this rank's GPU that of the calling thread
};

/// NCCL's communicator of all ranks, on this rank's GPU.
class RankLink {
 public:
  /// Returns when all ranks have come. `ranks` and `nccl` outlive it. Throws RankError, and DeviceError for a failure
  /// of NCCL.
  RankLink(const Nccl& nccl, Communicator& ranks, RankLinkOptions options);
  /// Where it is left by an exception it aborts.
  ~RankLink();
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;

  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

  // Each queues all of its tensors as one on `stream`, and throws as the constructor.
  /// The sums over ranks, in place.
  void all_reduce(std::span<const RankTensor> tensors, DType type, Stream stream);
  /// What rank 0 has, to all.
  void broadcast(std::span<const RankTensor> tensors, DType type, Stream stream);
  /// The sum over ranks of the own slice: `from` is whole.
  void reduce_scatter(std::span<const RankSlices> tensors, DType type, Stream stream);
  /// Everyone's slice: `to` is whole.
  void all_gather(std::span<const RankSlices> tensors, DType type, Stream stream);

  /// The sums over ranks of each range, to the rank that gets it.
  void reduce(std::span<const RankRange> ranges, DType type, Stream stream);
  /// Each range from the rank that has it, to all.
  void broadcast(std::span<const RankRange> ranges, DType type, Stream stream);

  /// Sends to one other rank while it is received from: what the one sends is, tensor for tensor, as long as what the
  /// other receives, and none is empty.
  void exchange(int other, std::span<const RankTensor> sends, std::span<const RankTensor> receives, DType type,
                Stream stream);

  /// Behind every wait for the device: throws where what was waited for has been aborted.
  void check() const;
  /// For a failure of the device, which may come of another rank's end: throws RankError where one is told of within a
  /// second.
  void check_soon() const;

 private:
  template <typename Function>
  void in_group(Function&& queue);
  NcclUniqueId tell_id();
  void meet(const RankLinkOptions& options);
  void watch(const std::function<void()>& use_device);
  void abort(const std::string& reason);
  [[noreturn]] void fail(NcclResult result) const;

  const NcclCalls& calls_;
  Communicator& ranks_;
  NcclCalls::Comm comm_ = nullptr;
  std::timed_mutex calling_;  ///< held while NCCL is called
  std::string reason_;        ///< why it was aborted, where not for another rank; written before is_aborted_
  std::atomic<bool> is_aborted_{false};
  int wake_ = -1;  ///< readable: the thread is to end
  std::thread thread_;
};

}  // namespace trainer::cuda
