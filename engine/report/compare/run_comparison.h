#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/report/compare/compared_run.h"
#include "engine/report/compare/config_differences.h"
#include "engine/report/compare/figure_kinds.h"
#include "engine/report/compare/run_check.h"
#include "engine/report/text/style.h"

namespace trainer {

/// So that each has a letter.
inline constexpr std::size_t most_compared_runs = 26;

/// A figure of all runs.
struct ComparedFigure {
  const FigureKind* kind = nullptr;
  std::vector<std::optional<double>> values;  ///< one for each run; nothing where it is not known
};

/// What differs between runs, of which the first is the reference.
struct RunComparison {
  std::vector<ComparedRun> runs;
  std::vector<ConfigDifference> config;  ///< between those that have a configuration
  std::vector<ComparedFigure> figures;   ///< that are known of any, in the order of figure_kinds()
  std::vector<CheckResult> checks;

  bool passed() const;
};

/// "A" for the first.
std::string run_letter(std::size_t run);

/// Of one run at least and `most_compared_runs` at most. Throws DataError where a run lacks the figure of a check.
RunComparison compare_runs(std::vector<ComparedRun> runs, const std::vector<RunCheck>& checks = {});

/// As tables, the runs' letters for their columns; of more than two in several where they do not fit the width.
std::string run_comparison_report(const RunComparison& comparison, const Style& style);

/// The event `comparison`, one line of JSON without a newline.
std::string run_comparison_json(const RunComparison& comparison);

}  // namespace trainer
