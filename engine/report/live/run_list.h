#pragma once

#include <vector>

#include "engine/report/live/frame.h"
#include "engine/report/live/live_scene.h"

namespace trainer {

/// Green where all is well, red where it is not.
TextLook look_of(LiveState state);

/// "1,234/18,400"; without its end where that is not known.
std::string steps_text(const LiveRun& run);

/// A line of titles and one for each run, the selected one reversed: at most `rows` lines, those around the selected
/// run where they are more. Columns that have no room are left out, the last ones in importance first.
std::vector<FrameLine> run_list(const LiveScene& scene, const LiveView& view, std::size_t columns, std::size_t rows);

}  // namespace trainer
