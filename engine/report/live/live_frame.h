#pragma once

#include "engine/report/live/frame.h"
#include "engine/report/live/live_scene.h"

namespace trainer {

/// Below that nothing of use can be shown, and a line says so.
inline constexpr ScreenSize least_live_screen = {.columns = 40, .rows = 10};

/// The whole screen: what runs, in a list where there are several, and all of the selected one.
Frame live_frame(const LiveScene& scene, const LiveView& view, ScreenSize size);

}  // namespace trainer
