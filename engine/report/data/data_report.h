#pragma once

#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "engine/findings/data_survey.h"
#include "engine/report/data/npz_writer.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What is told of an experiment's data.
struct DataReport {
  const DataConfig& config;
  const LoadedData& data;
  const DataSurvey& survey;
  std::string sheet;                    ///< the file of the contact sheet; empty: there is none
  std::int64_t num_shown = 0;           ///< samples on it
  std::string npz = {};                 ///< the file of prepared samples; empty: there is none
  std::vector<NamedArray> arrays = {};  ///< in it
  bool of_validation = false;           ///< whether both are of validation samples
  std::int64_t epoch = 1;               ///< that training samples are drawn for
};

/// Shapes, classes with their counts, statistics with the keys that normalise by them, remarks on the files. Lines end
/// with newlines.
std::string data_report(const DataReport& report, const Style& style);

/// The same as one JSON object: {"event": "data", …}.
std::string data_json(const DataReport& report);

}  // namespace trainer
