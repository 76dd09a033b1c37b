#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/report/sweep_json.h"
#include "engine/report/sweep_row.h"
#include "engine/train/run_lock.h"

namespace trainer {

/// The folder of a sweep, held by one process: Note [Sweep files] in engine/report/sweep_json.h.
class SweepFolder {
 public:
  /// The resolved configuration of the sweep that begins, as JSON, at values that need not be on its grid; throws
  /// ConfigError where it has none.
  using ConfigAt = std::function<std::string(const std::vector<std::string>& values)>;

  /// Makes the folder, or goes on with the sweep in it: one of the same keys whose configuration is the same but for
  /// their values, so that further values may be added. `overwrite` removes that sweep and its points' runs instead.
  /// Throws DataError, which says what to do, where the folder holds a run or another sweep.
  SweepFolder(std::string path, const SweepHeader& header, const ConfigAt& config_at, bool overwrite);

  const std::string& path() const { return path_; }
  std::string point_path(const std::string& point) const { return path_ + "/" + point; }
  /// The row of a point that need not be run again; null: it must.
  const SweepRow* result_of(const std::string& point) const;
  /// Every point that ended, in the order of their values.
  std::vector<SweepRow> rows() const;

  /// Keeps a row: on the disk, whole, when this returns. Throws DataError.
  void add(const SweepRow& row);
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string log_path() const { return path_ + "/sweep.jsonl"; }
  void start(const SweepHeader& header) const;
  void remove_sweep(const std::vector<SweepRow>& rows) const;

  std::string path_;
  std::unique_ptr<RunLock> lock_;
  std::vector<std::string> keys_;
  std::vector<SweepRow> rows_;
  std::unordered_map<std::string, std::size_t> places_;  ///< of rows_, by point
};

}  // namespace trainer
