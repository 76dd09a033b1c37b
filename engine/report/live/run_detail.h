#pragma once

#include <vector>

#include "engine/report/live/frame.h"
#include "engine/report/live/live_scene.h"

namespace trainer {

/// All that is told of one run, in at most `rows` lines of `columns`: where they are too few, what tells least is left
/// out; what is left of them is a chart.
std::vector<FrameLine> run_detail(const LiveScene& scene, const SceneRun& run, const LiveView& view,
                                  std::size_t columns, std::size_t rows);

}  // namespace trainer
