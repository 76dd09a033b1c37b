#pragma once

#include <cstdint>

namespace trainer::cuda::host {

/// While it lives, kernels that this thread launches on the host are counted and not run, so that their operands need
/// not be there; one at a time. A launch of no blocks is none.
class CountedLaunches {
 public:
  CountedLaunches();
  ~CountedLaunches();
  CountedLaunches(const CountedLaunches&) = delete;
  CountedLaunches& operator=(const CountedLaunches&) = delete;

  std::int64_t num_launches() const { return num_launches_; }
  /// Whether there is one, which then has counted a launch.
  static bool count();

 private:
  std::int64_t num_launches_ = 0;
};

}  // namespace trainer::cuda::host
