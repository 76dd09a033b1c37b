#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/compare/compared_run.h"
#include "engine/report/compare/config_differences.h"

namespace trainer {

// Note [Checks of runs]
// ~~~~~~~~~~~~~~~~~~~~~
// --check KEY=TOLERANCE says how much worse than the first run the others may be. KEY is that of a figure
// (figure_kinds.h), or one of
//
//   memory   peaks requested, allocated and reserved: each of them is checked
//   speed    tokens/s where both have them, else samples/s
//   config   all keys of the configuration but the names of runs and folders; only 0 or exact
//
// TOLERANCE is a part of the reference's value (1%), or an absolute number: of memory a size (2MiB), of time seconds,
// of shares such as accuracy a part of 1 (0.005). What is worse is known for most figures: more memory, less speed, a
// higher loss, a lower accuracy; less memory than the reference is never too little. ±TOLERANCE, also written
// +-TOLERANCE, bounds both directions, and so do figures of which neither is worse, such as steps. 0 allows nothing
// that is worse, exact no difference. Not finite is worse than any number.

struct RunCheck {
  std::string text;  ///< as it was given
  std::string key;
  double tolerance = 0;
  bool is_relative = false;   ///< `tolerance` is a part of the reference's value
  bool is_two_sided = false;  ///< better is no better

  std::string tolerance_text() const;  ///< as it was given
};

/// Reads KEY=TOLERANCE. Throws ConfigError, with the nearest key where it knows none such.
RunCheck parse_run_check(const std::string& text);

/// What a check found of one figure of one run.
struct CheckResult {
  std::string key;  ///< of the figure, or "config"
  std::string tolerance;
  std::size_t run = 0;
  bool passed = false;
  double reference = 0, value = 0;  ///< of config: how many keys differ
  std::string message;              ///< a sentence, where it failed
};

/// Of each check a result for each run behind the first and each figure. Throws DataError where one has no such figure.
std::vector<CheckResult> check_runs(const std::vector<ComparedRun>& runs, const std::vector<ConfigDifference>& config,
                                    const std::vector<RunCheck>& checks);

}  // namespace trainer
