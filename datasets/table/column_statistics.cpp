#include "datasets/table/column_statistics.h"

#include <cmath>

namespace trainer {

Standard standard_of(const NumberBlocks& features, std::size_t num_features, const std::vector<std::uint32_t>& rows) {
  Standard standard{std::vector<double>(num_features), std::vector<double>(num_features),
                    std::vector<double>(num_features)};
  const auto num_rows = static_cast<double>(rows.size());
  for (std::size_t i = 0; i < num_features; ++i) standard.origin[i] = features[rows.front() * num_features + i];
  for (const std::size_t row : rows)
    for (std::size_t i = 0; i < num_features; ++i)
      standard.mean[i] += features[row * num_features + i] - standard.origin[i];
  for (double& mean : standard.mean) mean /= num_rows;
  for (const std::size_t row : rows) {
    for (std::size_t i = 0; i < num_features; ++i) {
      const double difference = features[row * num_features + i] - standard.origin[i] - standard.mean[i];
      standard.std[i] += difference * difference;
    }
  }
  for (double& std : standard.std) {
    std = std::sqrt(std / num_rows);
    if (std == 0) std = 1;
  }
  return standard;
}

}  // namespace trainer
