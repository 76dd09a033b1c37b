#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/device/step_scalars.h"

namespace trainer {

/// The sizes of a StepFeed.
struct StepFeedShape {
  int num_places = 0;
  std::int64_t input_bytes = 0;   ///< of a place
  std::int64_t result_bytes = 0;  ///< of a place
};

/// A part of a place's input, and where it goes.
struct FedInput {
  void* destination = nullptr;
  std::int64_t offset = 0;  ///< in the input; a multiple of 16
  std::int64_t num_bytes = 0;
};

/// A part of a place's results, and where it is.
struct FedResult {
  const void* source = nullptr;  ///< aligned to 8 bytes
  std::int64_t num_bytes = 0;    ///< a multiple of 8
};

/// Note [Fed steps]
/// A small step has been computed before the host could say what it begins with, start it, and fetch its loss. So such
/// steps are recorded with their beginning and end, and read and write host memory by themselves: a feed has places,
/// and step number n since the feed was made takes place n % num_places, by a count that the device keeps. The host
/// fills the places of several steps, replays their recording, and reads the results once a mark behind it is over.
/// A place may be filled anew when the step that had it last is over.
class StepFeed {
 public:
  virtual ~StepFeed() = default;

  // Host memory of a place.
  virtual StepScalars& scalars(int place) = 0;
  virtual std::byte* input(int place) = 0;  ///< 64-byte aligned
  virtual const std::byte* results(int place) = 0;

  /// Both are called within Device::record alone, around all that a step queues. The first queues what begin_pass does,
  /// with scalars and copies of the next place; the second copies of results (at most two), one behind
  /// the other, to the host memory of that place.
  virtual void begin_step(std::span<const FedInput> inputs) = 0;
  virtual void end_step(std::span<const FedResult> results) = 0;
};

}  // namespace trainer
