#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/report/text/style.h"
#include "engine/train/measure/range_test_run.h"

namespace trainer {

/// A learning rate range test as it is told.
struct RangeTestFindings {
  std::string experiment_name, device_kind, device_name;
  std::int64_t capacity = 0, num_parameters = 0;
  ScheduleType schedule = ScheduleType::constant;  ///< of the experiment
  GroupNumbers lr{};                               ///< of the experiment
  std::vector<std::string> run_words;              ///< "run CONFIG key=value …", without a rate
  std::string override_prefix{};                   ///< Experiment::override_prefix
  RangeTestRun run;
};

/// What a run is given of a suggested rate: two digits.
std::string suggested_rate_text(double rate);

/// The curve of smoothed losses over the rates, where the suggestions lie on it, why the test ended, and what to paste.
std::string range_test_report(const RangeTestFindings& findings, const Style& style);
/// The event `lr_find`.
std::string range_test_json(const RangeTestFindings& findings);
/// The curve as the text of an SVG file, with the single losses and the suggestions.
std::string range_test_plot(const RangeTestFindings& findings);

}  // namespace trainer
