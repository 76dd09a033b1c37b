#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/ops/side_streams.h"
#include "engine/device/device.h"

namespace trainer::cuda {

/// Device::branch and Device::join by a second stream of kernels, which a recording captures from its first branch on.
/// A kernel behind a wait for the other stream has two in front of it, and begins its work when both have ended: it
/// starts behind what it waits for, or waits for it itself (Note [Early start] in launch/launch.h).
class Branches {
 public:
  /// `queue_on` says which of the two streams kernels are queued on from now on.
  Branches(SideStreams& streams, std::function<void(StreamKind)> queue_on)
      : streams_(streams), queue_on_(std::move(queue_on)), begin_(streams.make_event()) {}

  /// Device::record by `record`, which returns null with the reason in `obstacle` where it is refused; then once more
  /// without branches, and if that is granted no recording has any from then on.
  std::unique_ptr<Recording> record(const std::function<std::unique_ptr<Recording>(std::string& obstacle)>& record,
                                    std::string& obstacle);
  bool are_granted() const { return are_granted_; }
  /// Why not; empty where they are.
  const std::string& obstacle() const { return obstacle_; }

  std::int64_t branch(const std::function<void()>& queue);
  void join(std::int64_t branch) { streams_.wait(StreamKind::kernels, ends_.at(static_cast<std::size_t>(branch))); }

 private:
  SideStreams& streams_;
  std::function<void(StreamKind)> queue_on_;
  std::int32_t begin_;              ///< in the stream of kernels: what the branch may read is there
  std::vector<std::int32_t> ends_;  ///< by branch
  std::int64_t num_branches_ = 0;   ///< of this recording
  bool are_granted_ = true;
  std::string obstacle_;
};

}  // namespace trainer::cuda
