#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/live_buffers.h"
#include "engine/report/run/loss_curve.h"

namespace trainer {

/// How a point of a sweep (engine/config/sweep/sweep_grid.h) ended.
enum class PointStatus : std::uint8_t {
  done,
  out_of_memory,
  diverged,
  crashed,      ///< ended by a signal, as by the system where its memory runs out: nothing is known of the next try
  failed,       ///< ended with another exit code; nothing was measured
  interrupted,  ///< by Ctrl-C; nothing is kept of it
  fits,         ///< planned
  does_not_fit  ///< planned
};

/// "done", "oom", "diverged", "crashed", "failed", "interrupted", "fits", "does not fit"
std::string_view name_of(PointStatus status);
std::optional<PointStatus> point_status_of(std::string_view name);

/// Whether the point has its result, so that a sweep that goes on does not run it again.
bool has_result(PointStatus status);
/// Whether the point needed more memory than there was.
bool lacks_memory(PointStatus status);

inline constexpr std::size_t most_curve_points = 128;

/// What an evaluation of a point's run found.
struct EvaluatedPoint {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> accuracy;
};

/// What came of one point: of a run, or of a plan. Sizes in bytes, times in seconds; nothing where it is not known.
struct SweepRow {
  std::string point;                ///< SweepPoint::name
  std::vector<std::string> values;  ///< one for each swept key
  PointStatus status = PointStatus::done;
  int exit_code = 0;  ///< of the run's process
  int signal = 0;     ///< that ended it
  std::optional<std::int64_t> capacity;
  std::optional<std::int64_t> batch_size;        ///< of a micro-batch, as the point begins
  std::optional<std::int64_t> asked_batch_size;  ///< train.batch_size, where it is a number: no less than batch_size

  bool has_smaller_batches() const { return batch_size && asked_batch_size && *batch_size < *asked_batch_size; }
  /// Of the whole run. Of a plan that does not fit: without a bound.
  std::optional<std::int64_t> peak_requested, peak_allocated, peak_reserved;
  std::optional<std::int64_t> peak_used;     ///< the device's own count; never of a plan
  std::optional<CategoryBytes> by_category;  ///< of peak_allocated
  std::optional<double> samples_per_second;  ///< without the first step, where there are more; predicted by a plan
  std::optional<double> tokens_per_second;   ///< the same; nothing where samples are no tokens
  std::optional<double> step_seconds;        ///< the same of one step
  std::optional<double> loss, accuracy;      ///< of the last evaluation
  std::optional<double> train_loss;          ///< of the last step
  std::vector<CurvePoint> train_losses;      ///< over the steps, at most `most_curve_points`
  std::vector<EvaluatedPoint> evaluations;   ///< the last and, of very many, some of those before it
  std::int64_t steps = 0;                    ///< that were run
  double seconds = 0;                        ///< that the point took
  std::string error;                         ///< what it said where it did not end as it should
};

}  // namespace trainer
