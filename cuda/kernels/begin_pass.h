#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/device/step_feed.h"
#include "engine/device/step_scalars.h"

namespace trainer::cuda {

/// Bytes to copy within device memory; of any alignment, not overlapping.
struct StagedCopy {
  void* destination = nullptr;
  const void* source = nullptr;
  std::int64_t num_bytes = 0;
};

/// Host memory that the device reads and writes: `count` places, each of StepScalars, then input, then results.
struct FeedPlaces {
  std::byte* first = nullptr;
  std::int64_t count = 0;
  std::int64_t stride = 0, input_offset = 0, result_offset = 0;
};

/// *destination = scalars, as they are at the call, and two copies, either of which may be of no bytes: what a pass
/// begins with, in one kernel. Bytes: those copied, twice.
void begin_pass(const StepScalars& scalars, StepScalars* destination, const StagedCopy& first, const StagedCopy& second,
                Stream stream);

/// Step number *num_steps begins with its place: the scalars, and two copies of parts of its input, either of which may
/// be of no bytes. Bytes: those copied, read from the host and written to the device.
void begin_fed_step(const FeedPlaces& places, const std::int64_t* num_steps, StepScalars* destination,
                    const FedInput& first, const FedInput& second, Stream stream);
/// Its end: the results go to its place, one behind the other, and *num_steps counts it.
void end_fed_step(const FeedPlaces& places, std::int64_t* num_steps, const FedResult& first, const FedResult& second,
                  Stream stream);

}  // namespace trainer::cuda
