#include "datasets/table/table_dataset.h"

#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "datasets/memory_dataset.h"

namespace trainer {
namespace {

/// f32 numbers that are gathered piece by piece, in memory that was asked for at once and is only now touched.
class FloatBytes {
 public:
  explicit FloatBytes(std::size_t num_floats) {
    bytes_.reserve(num_floats * sizeof(float));
    piece_.reserve(piece_size);
  }

  void append(float value) {
    if (piece_.size() == piece_size) flush();
    piece_.push_back(value);
  }
  std::vector<std::byte> take() {
    flush();
    return std::move(bytes_);
  }

 private:
  static constexpr std::size_t piece_size = 1 << 14;

  void flush() {
    const auto bytes = std::as_bytes(std::span(piece_));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    piece_.clear();
  }

  std::vector<std::byte> bytes_;
  std::vector<float> piece_;
};

/// The number of a category, or −1 for what is 0 in all of them.
std::int64_t category_of(double value, const ColumnStatistics& statistics) {
  const auto category = static_cast<std::int64_t>(std::isnan(value) ? statistics.fill : value);
  return statistics.is_known(category) ? category : -1;
}

/// Takes the values block by block, so that both are never held whole; `append` gets each with its row and column.
template <class Append>
void take_values(TableValues& values, const Append& append) {
  std::size_t row = 0, column = 0;
  for (std::size_t block = 0; block < values.numbers.num_blocks(); ++block) {
    for (const double value : values.numbers.take_block(block)) {
      append(value, row, column);
      column = column + 1 == values.num_columns ? 0 : column + 1;
      row += column == 0 ? 1 : 0;
    }
  }
}

float standardised(double number, const ColumnStatistics& statistics, std::size_t row, std::size_t column,
                   const std::function<DataError(const FarNumber&)>& refuse) {
  const double value = (number - statistics.origin - statistics.mean) / statistics.std;
  if (std::abs(value) > std::numeric_limits<float>::max()) throw refuse({row, column, number, std::abs(value)});
  return static_cast<float>(value);
}

}  // namespace

std::shared_ptr<const Dataset> make_table_dataset(TableSamples samples, const TableSurvey& survey,
                                                  const std::vector<ColumnStatistics>& statistics,
                                                  const std::vector<ColumnStatistics>& target_statistics,
                                                  const std::function<DataError(const FarNumber&)>& refuse) {
  const std::int64_t num_features = survey.num_features();
  FloatBytes features(samples.features.num_rows() * static_cast<std::size_t>(num_features));
  take_values(samples.features, [&](double value, std::size_t row, std::size_t i) {
    const FeatureColumn& feature = survey.features[i];
    if (feature.kind == ColumnKind::number) {
      const double number = std::isnan(value) ? statistics[i].fill : value;
      features.append(standardised(number, statistics[i], row, feature.column, refuse));
      return;
    }
    const std::int64_t its = category_of(value, statistics[i]);
    for (std::int64_t category = 0; category < feature.width(); ++category)
      features.append(category == its ? 1.0F : 0.0F);
  });
  const TensorType sample{DType::f32, Shape{num_features}};
  const std::size_t num_targets = samples.targets.num_columns;
  if (num_targets == 0)
    return std::make_shared<MemoryDataset>(sample, TensorType{DType::i32, Shape{}}, features.take(),
                                           std::move(samples.classes));
  FloatBytes targets(samples.targets.numbers.size());
  take_values(samples.targets, [&](double value, std::size_t row, std::size_t i) {
    targets.append(standardised(value, target_statistics[i], row, survey.columns.targets[i], refuse));
  });
  return std::make_shared<MemoryDataset>(sample, TensorType{DType::f32, Shape{static_cast<std::int64_t>(num_targets)}},
                                         features.take(), targets.take());
}

std::vector<std::int64_t> count_unknown_categories(const TableValues& values, const TableSurvey& survey,
                                                   const std::vector<ColumnStatistics>& statistics,
                                                   const std::vector<std::uint32_t>* rows) {
  std::vector<std::int64_t> counts(survey.features.size());
  const std::size_t num_rows = rows == nullptr ? values.num_rows() : rows->size();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (survey.features[i].kind != ColumnKind::category) continue;
    for (std::size_t row = 0; row < num_rows; ++row)
      if (category_of(values.at(rows == nullptr ? row : (*rows)[row], i), statistics[i]) < 0) ++counts[i];
  }
  return counts;
}

}  // namespace trainer
