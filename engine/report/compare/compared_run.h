#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/report/record/run_record.h"

namespace trainer {

/// What is compared: a run, or the plan of one.
struct ComparedRun {
  std::string path, name{}, status{};
  bool is_plan = false;
  std::optional<Json> config{};  ///< resolved, and what the run was adapted to
  std::string device_kind{}, device_name{}, version{};
  std::map<std::string, double, std::less<>> figures{};  ///< those that are known, by key; NaN: not finite

  std::optional<double> figure(std::string_view key) const;
};

/// A run of a folder or of a file of events, or what `trainer plan --json` wrote into a file. Throws DataError as
/// read_run, and where a file is neither or holds plans of several targets.
ComparedRun read_compared_run(const std::string& path);

/// The same of a run that was read. Speeds are without the first step of each start, where there are more; peaks are
/// the highest of all steps and of what the end tells; the steady step is the last one with the most samples, as plans
/// count it.
ComparedRun compared_run(const RunRecord& record);

}  // namespace trainer
