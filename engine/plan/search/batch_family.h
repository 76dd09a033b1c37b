#pragma once

#include <cstdint>
#include <memory>

#include "engine/device/device.h"
#include "engine/plan/search/candidate.h"

namespace trainer {

// Note [Neighbouring batch sizes]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The programs of neighbouring batch sizes are the same instructions over buffers of other sizes. So two are compiled,
// of a low and of a high batch size, and where they agree the instructions of one in between are known without
// compiling it: each dimension is the same, or the same multiple of the batch size, at both ends. What else may differ
// in between is decided by sizes, in five places:
//
// - Scratch is the device's to say: it is asked for every op of every batch size.
// - So are statistics of convolutions. No answer is given where they are not those of the two programs.
// - Whether an output takes over an input's memory is an equality of two sizes that are linear in the batch size. It
//   cannot turn where their difference has the same sign at both ends.
// - What is offloaded, and whether the loss is computed in chunks, are thresholds: the same at both ends, the same in
//   between.
// - What is cheap to compute again compares sums of whole blocks. These choices are made anew for the batch size, and
//   no answer is given where they differ from those of the two programs. A search under a budget has no family.
//
// The whole batches up to the first odd one or the first evaluation are walked through the allocator, exactly as the
// plan does. They may fit where the run does not, but a run in which they do not fit does not fit.

/// Whether another budget or capacity may make another program.
bool searches_program(const Experiment& experiment);

/// The programs of one experiment for the batch sizes from one to another, which differ in nothing but sizes: tells
/// in microseconds of most batch sizes that do not fit that they do not.
class BatchFamily {
 public:
  /// Null where the two differ in more than sizes, cannot be compiled, or search under a budget. But for keys that hold
  /// the batch size, the experiments are the same. The device must outlive the family.
  static std::unique_ptr<BatchFamily> make(const Candidate& low, const Candidate& high, const DeviceModel& device);
  virtual ~BatchFamily() = default;

  /// False only where Planner::fits is false. True says nothing; so does every answer but for the experiment of `make`
  /// with a batch size from the low to the high one.
  virtual bool may_fit(const Candidate& candidate, std::int64_t capacity) = 0;
  /// What that has cost so far, in the unit of Planner::work, but for convolutions the device was asked about.
  virtual std::int64_t work() const = 0;
};

}  // namespace trainer
