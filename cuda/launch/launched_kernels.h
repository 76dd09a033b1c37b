#pragma once

#include <vector>

namespace trainer::cuda::host {

/// While it lives, notes which kernels this thread launches on the host; one at a time.
class LaunchedKernels {
 public:
  using Kernel = void (*)();

  LaunchedKernels();
  ~LaunchedKernels();
  LaunchedKernels(const LaunchedKernels&) = delete;
  LaunchedKernels& operator=(const LaunchedKernels&) = delete;

  /// Their functions, in the order of the launches.
  const std::vector<Kernel>& kernels() const { return kernels_; }
  /// Where there is one.
  static void note(Kernel kernel);

 private:
  std::vector<Kernel> kernels_;
};

}  // namespace trainer::cuda::host
