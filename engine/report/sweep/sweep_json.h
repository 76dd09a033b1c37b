#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/sweep/sweep_row.h"

namespace trainer {

// Note [Sweep files]
// ~~~~~~~~~~~~~~~~~~
// <folder>/sweep.jsonl is what a sweep knows of itself: the first line, event "sweep", says what is swept; a point that
// is run adds a line, event "begun", before anything is written into its folder; and each point adds a line, event
// "point", when it ends; of two lines of one point the later counts. A run in a point's folder is the sweep's own only
// where the log names the point as begun. `--json` prints the same lines, and an "end" line. sweep.csv and sweep.svg
// are made of them when the sweep ends. Fields may be added and are never renamed or removed; the config is that of the
// first point, without its output.

/// The first line: what a sweep must have in common with the one that goes on with it.
struct SweepHeader {
  std::string version;  ///< of trainer
  bool plan_only = false;
  std::string gpu, capacity;  ///< --gpu and --capacity; empty: not given
  /// Of plan_only: the device planned for and where its rates are from, at `values`; empty: there is no such device.
  std::string device, rates;
  std::vector<std::string> keys;    ///< swept
  std::vector<std::string> values;  ///< of the point whose configuration this is
  std::string config_json;          ///< resolved, with the output of that point
};

/// Whether the samples of its configuration are tokens.
bool is_of_tokens(const SweepHeader& header);

/// One line of JSON without a newline.
std::string sweep_header_json(const SweepHeader& header);
/// `keys` names the row's values. `kept`: the row is from before this sweep.
std::string sweep_row_json(const std::vector<std::string>& keys, const SweepRow& row, bool kept = false);

std::string sweep_begun_json(const std::string& point);

/// How a sweep ended.
struct SweepEnd {
  bool interrupted = false;
  std::int64_t num_points = 0;    ///< of the grid
  std::int64_t num_run = 0;       ///< run or planned by this sweep
  std::int64_t num_kept = 0;      ///< with results from before
  std::int64_t num_left_out = 0;  ///< larger than one that ran out of memory
  std::string folder;
};
std::string sweep_end_json(const SweepEnd& end);

/// What sweep.jsonl says.
struct SweepLog {
  SweepHeader header;
  std::vector<SweepRow> rows;   ///< one a point, in the order in which they first ended
  std::set<std::string> begun;  ///< points whose runs this sweep began, also those that did not end
};

/// Reads the text of a sweep.jsonl; a last line without its end is left out. Nothing where not even the first line is
/// whole. Throws DataError, which names `path` and the line, where a line is not what a sweep writes.
std::optional<SweepLog> read_sweep_log(std::string_view text, const std::string& path);

/// Keys whose values differ between two resolved configurations, "train.steps (was 20, is 50)"; output and
/// logging are left out.
std::vector<std::string> find_differences(const std::string& former_json, const std::string& json);

/// Reads what `trainer run --json` prints, line by line, and fills in a point's row.
class RunEventReader {
 public:
  /// Lines that are no events are left alone.
  void read(std::string_view line);
  /// Everything that the events tell, and whether the last one told how the run ended.
  bool fill(SweepRow& row) const;

  bool started() const { return started_; }  ///< the run took its folder
  std::int64_t step() const { return row_.steps; }
  std::int64_t total_steps() const { return total_steps_; }
  std::optional<double> train_loss() const { return row_.train_loss; }

 private:
  void add_evaluation(const EvaluatedPoint& point);

  SweepRow row_;
  LossCurve train_losses_;
  std::int64_t evaluations_seen_ = 0, evaluations_apart_ = 1;  ///< every so many of them are kept
  std::int64_t total_steps_ = 0, tokens_per_sample_ = 0;
  // Of the first step, and of all behind it.
  struct Timing {
    std::int64_t steps = 0, samples = 0;
    double seconds = 0;
  };
  Timing first_, later_;
  bool started_ = false, ended_ = false;
};

}  // namespace trainer
