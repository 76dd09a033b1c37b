#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/plot/plot_picture.h"
#include "engine/report/record/run_record.h"

namespace trainer {

/// What runs are drawn over: their steps, the seconds of steps and evaluations, or epochs and parts of them.
enum class RunAxis : std::uint8_t { step, time, epoch };

struct RunPictureOptions {
  std::vector<std::string> of = {"loss", "lr", "memory", "speed"};  ///< the panels, in this order
  RunAxis axis = RunAxis::step;
  bool logarithmic = false;  ///< losses, learning rates and what is better lower, without what is not above 0
};

/// Names of panels: loss, lr, memory, speed, and the metrics that evaluations may tell.
const std::vector<std::string>& panel_names();

/// The curves of runs. Of one run memory is what is allocated, reserved and used, of several their peaks allocated and
/// reserved. Stages are marks. Throws DataError where no run has a step, where none tells what is asked for, and of a
/// stage that is none.
CurvePicture run_picture(const std::vector<RunRecord>& records, const RunPictureOptions& options);

}  // namespace trainer
