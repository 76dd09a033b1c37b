#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cuda/kernels/begin_pass.h"
#include "engine/device/device.h"

namespace trainer::cuda {

/// Where the kernels of a device find what fed steps share, in device memory.
struct FedStepState {
  StepScalars* scalars = nullptr;
  std::int64_t* num_steps = nullptr;  ///< 0 when the feed is made
};

/// The feed of a CUDA device, over host memory that the device reads and writes.
class StepPlaces final : public StepFeed {
 public:
  /// Queues a kernel's launch on the device's stream.
  using Queue = std::function<void(const std::function<void(Stream)>& launch)>;
  /// `make_memory` is called once.
  StepPlaces(const StepFeedShape& shape,
             const std::function<std::unique_ptr<HostMemory>(std::int64_t num_bytes)>& make_memory, FedStepState state,
             Queue queue);

  StepScalars& scalars(int place) override { return *reinterpret_cast<StepScalars*>(at(place)); }
  std::byte* input(int place) override { return at(place) + places_.input_offset; }
  const std::byte* results(int place) override { return at(place) + places_.result_offset; }
  void begin_step(std::span<const FedInput> inputs) override;
  void end_step(std::span<const FedResult> results) override;

 private:
  std::byte* at(int place) const { return places_.first + place * places_.stride; }

  std::unique_ptr<HostMemory> memory_;
  FeedPlaces places_;
  FedStepState state_;
  Queue queue_;
};

}  // namespace trainer::cuda
