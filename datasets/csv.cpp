#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "datasets/dataset_format.h"
#include "datasets/split.h"
#include "datasets/table/cell_text.h"
#include "datasets/table/column_statistics.h"
#include "datasets/table/table_dataset.h"
#include "datasets/table/table_preprocessing.h"
#include "datasets/table/table_rows.h"
#include "datasets/table/table_survey.h"

// Tables: one sample a record. A first pass over the files finds what their columns hold, a second one reads them.

namespace trainer {
namespace {

std::vector<std::string> csv_files(const DataConfig& config) {
  if (config.train.empty()) throw data_config_error(config, "data.train is missing", "the path of a csv file");
  std::vector<std::string> files = {data_path(config, config.train)};
  if (!config.validation.empty()) files.push_back(data_path(config, config.validation));
  return files;
}

/// What a sample takes on its way to f32: each column in f64, and while what fills a column is found, that column
/// again.
std::int64_t reading_bytes_of(const TableSurvey& survey, bool categorical) {
  const auto wide = static_cast<std::int64_t>(sizeof(double));
  std::int64_t num_bytes = static_cast<std::int64_t>(survey.features.size()) * wide;
  num_bytes += categorical ? static_cast<std::int64_t>(sizeof(std::int32_t))
                           : static_cast<std::int64_t>(survey.columns.targets.size()) * wide;
  for (std::size_t i = 0; i < survey.features.size(); ++i)
    if (survey.is_filled[i] && survey.features[i].kind == ColumnKind::number) return num_bytes + wide;
  return num_bytes;
}

DatasetHeader inspect_csv(const DataConfig& config) {
  const std::vector<std::string> files = csv_files(config);
  auto survey = std::make_shared<TableSurvey>(survey_training_table(config, files[0]));
  if (files.size() > 1) survey_validation_table(config, files[1], files[0], *survey);
  DatasetHeader header;
  header.source = files[0];
  header.sample = {DType::f32, Shape{survey->num_features()}};
  header.categorical = is_categorical(config);
  header.num_outputs =
      header.categorical ? survey->num_classes() : static_cast<std::int64_t>(survey->columns.targets.size());
  header.num_train = survey->num_train;
  header.num_validation = survey->num_validation;
  header.reading_bytes = reading_bytes_of(*survey, header.categorical);
  header.table = std::move(survey);
  return header;
}

/// A file may be replaced between the passes.
DataError changed(const std::string& path) {
  return DataError(fmt::format("{}: the data was changed while it was read; start again", path));
}

TableSamples read_samples(const DataConfig& config, const std::string& path, const std::string& train_path,
                          const TableSurvey& survey, std::int64_t num_samples) {
  TableRows rows(config, path, train_path, survey);
  TableSamples samples;
  samples.features.num_columns = survey.features.size();
  const bool categorical = is_categorical(config);
  if (categorical)
    samples.classes.reserve(static_cast<std::size_t>(num_samples) * sizeof(std::int32_t));
  else
    samples.targets.num_columns = survey.columns.targets.size();
  std::int64_t count = 0;
  for (; rows.next(); ++count) {
    if (count == num_samples) throw changed(path);
    for (std::size_t i = 0; i < survey.features.size(); ++i) {
      const double value = rows.feature(i);
      if (value < 0 && survey.features[i].kind == ColumnKind::category && path == train_path) throw changed(path);
      samples.features.numbers.append(value);
    }
    for (std::size_t i = 0; i < samples.targets.num_columns; ++i) samples.targets.numbers.append(rows.target(i));
    if (!categorical) continue;
    const std::int32_t label = rows.the_class();
    const auto* const bytes = reinterpret_cast<const std::byte*>(&label);
    samples.classes.insert(samples.classes.end(), bytes, bytes + sizeof(label));
  }
  if (count != num_samples) throw changed(path);
  return samples;
}

/// Those that load_data takes for training.
std::vector<std::uint32_t> training_rows(const DataConfig& config, std::int64_t num_rows, std::int64_t num_aside,
                                         std::uint64_t seed) {
  std::optional<std::int64_t> num_train;
  if (config.samples > 0 && config.samples < num_rows - num_aside) num_train = config.samples;
  return split_samples(num_rows, num_aside, seed, num_train).train;
}

/// The error at a number's place, which is looked up in the file again.
DataError far_number(const DataConfig& config, const std::string& path, const std::string& train_path,
                     const TableSurvey& survey, const FarNumber& far) {
  TableRows rows(config, path, train_path, survey);
  std::size_t row = 0;
  for (; rows.next(); ++row) {
    if (row != far.row) continue;
    return rows.reader().error(far.column,
                               fmt::format("{:g} in {} is {:g} standard deviations from the mean of the training "
                                           "samples, more than f32 holds",
                                           far.number, survey.columns.name_of(far.column), far.deviations));
  }
  return changed(path);
}

DatasetContents load_csv(const DataConfig& config, std::uint64_t seed, const DatasetHeader& header) {
  const std::vector<std::string> files = csv_files(config);
  const TableSurvey& survey = *header.table;
  const std::string& train_path = files[0];
  TableSamples train = read_samples(config, train_path, train_path, survey, survey.num_train);
  const std::int64_t num_aside = files.size() > 1 ? 0 : num_set_aside(config, survey.num_train);
  const std::vector<std::uint32_t> rows = training_rows(config, survey.num_train, num_aside, seed);
  const std::vector<ColumnStatistics> statistics =
      statistics_of(train.features, survey, rows, train_path, config.standardize);
  const std::vector<ColumnStatistics> target_statistics =
      config.standardize_target ? target_statistics_of(train.targets, rows)
                                : std::vector<ColumnStatistics>(train.targets.num_columns);
  std::optional<TableSamples> validation;
  if (files.size() > 1) validation = read_samples(config, files[1], train_path, survey, survey.num_validation);
  std::vector<std::int64_t> num_unknown(survey.features.size());
  if (validation) {
    num_unknown = count_unknown_categories(validation->features, survey, statistics, nullptr);
  } else if (num_aside > 0) {
    const std::vector<std::uint32_t> aside = split_samples(survey.num_train, num_aside, seed).validation;
    num_unknown = count_unknown_categories(train.features, survey, statistics, &aside);
  }

  DatasetContents contents;
  contents.preprocessing = table_preprocessing(config, survey, statistics, target_statistics, num_unknown);
  const auto made = [&](TableSamples samples, const std::string& path) {
    return make_table_dataset(std::move(samples), survey, statistics, target_statistics,
                              [&](const FarNumber& far) { return far_number(config, path, train_path, survey, far); });
  };
  contents.train = made(std::move(train), train_path);
  if (validation) contents.validation = made(std::move(*validation), files[1]);
  return contents;
}

}  // namespace

DatasetFormat csv_format() {
  DatasetFormat format;
  format.numeric_targets = true;
  format.inspect_reads_everything = true;
  format.required_files = csv_files;
  format.inspect = inspect_csv;
  format.load = load_csv;
  return format;
}

}  // namespace trainer
