#pragma once

#include <string>

#include "datasets/dataset.h"
#include "engine/findings/data_survey.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What is told of an experiment's data.
struct DataReport {
  const DataConfig& config;
  const LoadedData& data;
  const DataSurvey& survey;
  std::string sheet;           ///< the file of the contact sheet; empty: there is none
  std::int64_t num_shown = 0;  ///< samples on it
};

/// Shapes, classes with their counts, statistics with the keys that normalise by them, remarks on the files. Lines end
/// with newlines.
std::string data_report(const DataReport& report, const Style& style);

/// The same as one JSON object: {"event": "data", …}.
std::string data_json(const DataReport& report);

}  // namespace trainer
