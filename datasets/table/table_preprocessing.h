#pragma once

#include <cstdint>
#include <vector>

#include "datasets/table/column_statistics.h"
#include "datasets/table/table_survey.h"
#include "engine/graph/preprocessing.h"

namespace trainer {

/// What a table's samples went through. `num_unknown` is by feature, as count_unknown_categories() tells it.
Preprocessing table_preprocessing(const DataConfig& config, const TableSurvey& survey,
                                  const std::vector<ColumnStatistics>& statistics,
                                  const std::vector<ColumnStatistics>& target_statistics,
                                  const std::vector<std::int64_t>& num_unknown);

}  // namespace trainer
