#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/report/sweep/sweep_json.h"
#include "engine/report/sweep/sweep_row.h"
#include "engine/train/files/run_lock.h"

namespace trainer {

/// The folder of a sweep, held by one process: Note [Sweep files] in engine/report/sweep/sweep_json.h.
class SweepFolder {
 public:
  /// The header of the sweep that begins, at values that need not be on its grid; throws ConfigError where it has no
  /// configuration there.
  using HeaderAt = std::function<SweepHeader(const std::vector<std::string>& values)>;

  /// Makes the folder, or goes on with the sweep in it: one of the same keys whose configuration is the same but for
  /// their values, so that further values may be added. `overwrite` removes that sweep and its points' runs instead.
  /// Throws DataError, which says what to do, where the folder holds a run, another sweep, or a sweep.jsonl that no
  /// sweep wrote.
  SweepFolder(std::string path, const SweepHeader& header, const HeaderAt& header_at, bool overwrite);

  const std::string& path() const { return path_; }
  std::string point_path(const std::string& point) const { return path_ + "/" + point; }
  /// The row of a point that need not be run again; null: it must.
  const SweepRow* result_of(const std::string& point) const;
  /// Every point that ended, in the order of their values.
  std::vector<SweepRow> rows() const;

  /// Throws DataError, which says what to do, where the point's folder holds a run that this sweep did not begin.
  void check_is_free(const std::string& point) const;
  /// Notes that the sweep is about to write into the point's folder: from here on the run there is its own. Checks that
  /// it is free. Whether the sweep had begun it before.
  bool begin(const std::string& point);
  /// Keeps a row: on the disk, whole, when this returns. Throws DataError.
  void add(const SweepRow& row);
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string log_path() const { return path_ + "/sweep.jsonl"; }
  void start(const SweepHeader& header) const;
  void remove_sweep(const SweepLog& former) const;

  std::string path_;
  std::unique_ptr<RunLock> lock_;
  std::vector<std::string> keys_;
  std::vector<SweepRow> rows_;
  std::set<std::string> begun_;
  std::unordered_map<std::string, std::size_t> places_;  ///< of rows_, by point
};

}  // namespace trainer
