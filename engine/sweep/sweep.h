#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/errors.h"
#include "engine/findings/device_source.h"
#include "engine/findings/known_rates.h"
#include "engine/report/sweep/sweep_json.h"
#include "engine/report/sweep/sweep_row.h"
#include "engine/train/training_run.h"

namespace trainer {

/// What `trainer sweep` was asked for.
struct SweepOptions {
  std::string config_path;
  std::string version;  ///< of trainer
  bool plan_only = false;
  std::string gpu, capacity;  ///< of plan_only; empty: not given
  bool stop_on_oom = false;
  bool overwrite = false;
  bool keep_checkpoints = false;
};

/// Is told what a sweep does, in order.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  virtual void begin(const SweepHeader& header, std::size_t num_points, const std::string& folder) = 0;
  /// A point's run is started.
  virtual void begun(const SweepPoint& point) = 0;
  /// What runs now, some ten times a second.
  virtual void running(const SweepPoint& point, std::size_t number, const RunEventReader& events, double seconds) = 0;
  /// `kept`: the row is from before this sweep.
  virtual void ended(const SweepRow& row, bool kept) = 0;
  /// What a point's process said that is no part of its row: whole lines.
  virtual void said(const std::string& lines) = 0;
  /// What was asked of a point and is not as it seems.
  virtual void noted(const std::string& sentence) = 0;
  /// `rows` are all that ended, as sorted_rows() orders them.
  virtual void end(const SweepEnd& end, const std::vector<SweepRow>& rows) = 0;
};

/// Runs or plans every point of the grid that has no result yet, tells of each when it ends, and writes the files of
/// Note [Sweep files] (engine/report/sweep/sweep_json.h). Every point's configuration is checked before the first is
/// run.
///
/// A point is a run in a process of its own, in <folder>/<point>: however it ends costs one row. With `stop_on_oom`
/// points are left out whose first key is larger than where one ran out of memory, the other keys being equal.
/// An interruption ends the running point, of which nothing is kept.
///
/// What a former sweep in the folder has found is not sought again. Of plans those stay that were made for the memory
/// that there is now; without `capacity`, where what is free is never the same twice, also those that fit into it.
///
/// `done` where every point ended done or out of memory (or was planned), else the code of the first that did not;
/// `interrupted` after an interruption. Throws ConfigError and DataError where the sweep cannot begin, also where a
/// point's folder holds a run that the sweep did not begin.
ExitCode run_sweep(const SweepOptions& options, const SweepGrid& grid, const DeviceSource& devices,
                   const Interruption& interruption, SweepObserver& observer, const RatesProblemSink& on_rates_problem);

}  // namespace trainer
