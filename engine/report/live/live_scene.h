#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/gpu_usage.h"
#include "engine/report/live/live_run.h"
#include "engine/report/live/process_usage.h"

namespace trainer {

/// A run as it is at the moment of a scene.
struct SceneRun {
  const LiveRun* run = nullptr;
  std::string label;  ///< by which it is told from others: its folder, as seen from where was looked
  LiveState state = LiveState::waiting;
  std::optional<ProcessUsage> process{};  ///< that trains, where it is here and goes on
  double busy_processors = 0;             ///< by it
};

/// All that a screen is made of, besides what its reader chose.
struct LiveScene {
  std::vector<SceneRun> runs;    ///< those that run first, then the newest; ranks behind their run
  std::vector<GpuUsage> gpus;    ///< empty where no driver tells of any
  double now_seconds = 0;        ///< since 1970
  std::string clock;             ///< "13:05:22"
  std::string searched;          ///< where runs are looked for, in words
  std::size_t num_left_out = 0;  ///< older runs
  bool is_whole = true;          ///< false: there are more files and folders there than are looked through
};

/// What the reader of a screen chose.
struct LiveView {
  std::size_t selected = 0;  ///< of LiveScene::runs
  bool detail = false;       ///< without the list of runs
  bool log_scale = false;    ///< of losses
  bool memory = false;       ///< memory in place of losses
  bool help = false;
  bool ascii = false;  ///< the terminal takes nothing else
};

}  // namespace trainer
