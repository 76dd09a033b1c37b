#include "cuda/ops/branches.h"

namespace trainer::cuda {

std::unique_ptr<Recording> Branches::record(
    const std::function<std::unique_ptr<Recording>(std::string& obstacle)>& record, std::string& obstacle) {
  num_branches_ = 0;
  std::unique_ptr<Recording> recording = record(obstacle);
  if (recording || num_branches_ == 0) return recording;
  are_granted_ = false;
  std::string obstacle_without;
  recording = record(obstacle_without);
  if (recording) {
    obstacle_.swap(obstacle);
  } else {
    are_granted_ = true;  // it was not for the branches
  }
  return recording;
}

std::int64_t Branches::branch(const std::function<void()>& queue) {
  const std::int64_t number = num_branches_++;
  if (static_cast<std::size_t>(number) == ends_.size()) ends_.push_back(streams_.make_event());
  streams_.record(begin_, StreamKind::kernels);
  streams_.wait(StreamKind::branch, begin_);
  {
    const auto go_back = [this](void*) { queue_on_(StreamKind::kernels); };
    const std::unique_ptr<void, decltype(go_back)> at_end(this, go_back);
    queue_on_(StreamKind::branch);
    queue();
  }
  streams_.record(ends_[static_cast<std::size_t>(number)], StreamKind::branch);
  return number;
}

}  // namespace trainer::cuda
