#pragma once

#include <string>

#include "engine/findings/find_prediction_plan.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What predicting takes: who holds what, and whether that fits.
std::string prediction_plan_report(const PredictionPlanFindings& findings, const Style& style);

/// The same in a line, for who waits for predictions: "Batches of 32: parameters 97.70 MiB, peak …".
std::string prediction_plan_line(const PredictionPlanFindings& findings);

/// {"event": "prediction_plan", …}
std::string prediction_plan_json(const PredictionPlanFindings& findings);

}  // namespace trainer
