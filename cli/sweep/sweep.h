#pragma once

#include <string>
#include <vector>

#include "engine/errors.h"

namespace trainer {

/// What `trainer sweep` was asked for.
struct SweepOptions {
  std::string config_path;
  std::vector<std::string> arguments;  ///< Note [Sweeps] in engine/config/sweep/sweep_grid.h
  bool plan_only = false;
  std::string gpu, capacity;  ///< of plan_only; empty: not given
  bool stop_on_oom = false;
  bool overwrite = false;
  bool keep_checkpoints = false;
  bool json = false, quiet = false;
};

/// Runs or plans every point that has no result yet, tells each on stdout when it ends, and writes the files of
/// Note [Sweep files] (engine/report/sweep/sweep_json.h). Every point's configuration is checked before the first is
/// run.
///
/// A point is a run in a process of its own, in <folder>/<point>: however it ends costs one row. With `stop_on_oom`
/// points are left out whose first key is larger than where one ran out of memory, the other keys being equal.
/// Ctrl-C ends the running point, of which nothing is kept.
///
/// What a former sweep in the folder has found is not sought again. Of plans those stay that were made for the memory
/// that there is now; without `capacity`, where what is free is never the same twice, also those that fit into it.
///
/// `done` where every point ended done or out of memory (or was planned), else the code of the first that did not;
/// `interrupted` after Ctrl-C. Throws ConfigError and DataError where the sweep cannot begin, also where a
/// point's folder holds a run that the sweep did not begin.
ExitCode run_sweep(const SweepOptions& options);

}  // namespace trainer
