#pragma once

#include <vector>

#include "engine/report/live/frame.h"
#include "engine/report/live/live_scene.h"

namespace trainer {

/// What became of the run where it does not run, and how it goes on from there; warnings; the last checkpoint. Those
/// that matter most first.
std::vector<FrameLine> run_notes(const LiveScene& scene, const SceneRun& run, bool ascii, std::size_t columns);

/// The GPUs of this machine with what uses them; where it has none, the process that trains. `rows` lines at most.
std::vector<FrameLine> machine_lines(const LiveScene& scene, const SceneRun& run, bool ascii, std::size_t columns,
                                     std::size_t rows);

/// "eval at step 161: loss 0.0319, accuracy 99.17 %"; empty where there was none.
FrameLine evaluation_line(const LiveRun& run, bool ascii, std::size_t columns);

}  // namespace trainer
