#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/report/live/live_run.h"
#include "engine/report/live/live_scene.h"
#include "engine/report/live/run_folders.h"

namespace trainer {

/// The runs that are watched: found, read as they go on, and put in order. What is in the way of one, such as a file
/// that cannot be read, is told in its place.
class LiveRuns {
 public:
  /// `paths`: folders of runs, their events.jsonl, or folders below which runs are and will be; all of them where it
  /// is empty: the folder `runs`, which need not be there yet. Throws DataError for a path that is not there.
  explicit LiveRuns(const std::vector<std::string>& paths, const RunSearchLimits& limits = {});

  /// Looks for new runs, and for those that have gone.
  void search();
  /// Reads what was told since, in passes over all runs: each run once in a pass, `first` before the others (an index
  /// into the last scene's runs). Ends when the pass is over, which is true then, or behind the first piece after
  /// `deadline`; the next call goes on with what the pass has left. So each call gets further, however late it is.
  bool read(std::chrono::steady_clock::time_point deadline, std::size_t first = 0);
  /// As it is now, without the GPUs. Valid until the next search() or scene().
  LiveScene scene();

 private:
  struct Watched {
    std::unique_ptr<LiveRun> run;
    std::string lead;  ///< the folder of the run that it is a rank of, or its own
    std::string label;
    std::optional<ProcessUsage> process{};
    bool is_read = false;  ///< in the pass that goes on
  };

  LiveState state_of(const Watched& watched, std::int64_t holder) const;
  std::string label_of(const std::string& root, const RunFolder& folder) const;

  const RunSearchLimits limits_;
  std::vector<std::string> roots_;
  std::vector<Watched> runs_;
  std::size_t num_left_out_ = 0;
  bool is_whole_ = true;
  std::string host_;
};

}  // namespace trainer
