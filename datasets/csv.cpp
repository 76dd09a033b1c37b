#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "datasets/dataset_format.h"
#include "datasets/memory_dataset.h"
#include "datasets/split.h"
#include "datasets/table/category_table.h"
#include "datasets/table/column_statistics.h"
#include "datasets/table/number_blocks.h"
#include "datasets/table/table_reader.h"
#include "engine/config/text/utf8_text.h"

// Tables: one sample a record, numbers in every column but the target's.

namespace trainer {
namespace {

/// Distinct labels in order of appearance, and the number of each row's.
class LabelList {
 public:
  void add(std::string_view label) {
    text_.assign(label);
    const auto [place, is_new] = number_of_.try_emplace(text_, static_cast<std::uint32_t>(labels_.size()));
    if (is_new) labels_.push_back(text_);
    rows_.push_back(place->second);
  }
  const std::vector<std::string>& labels() const { return labels_; }
  const std::vector<std::uint32_t>& rows() const { return rows_; }

 private:
  std::string text_;
  std::unordered_map<std::string, std::uint32_t> number_of_;
  std::vector<std::string> labels_;
  std::vector<std::uint32_t> rows_;
};

std::vector<std::string> csv_files(const DataConfig& config) {
  if (config.train.empty()) throw data_config_error(config, "data.train is missing", "the path of a csv file");
  std::vector<std::string> files = {data_path(config, config.train)};
  if (!config.validation.empty()) files.push_back(data_path(config, config.validation));
  return files;
}

DatasetHeader inspect_csv(const DataConfig& config) {
  const std::vector<std::string> files = csv_files(config);
  TableReader train(config, files[0]);
  LabelList labels;
  while (train.next())
    if (is_categorical(config)) labels.add(train.label());
  DatasetHeader header;
  header.source = files[0];
  header.sample = {DType::f32, Shape{static_cast<std::int64_t>(train.columns().count) - 1}};
  header.categorical = is_categorical(config);
  header.num_outputs = header.categorical ? CategoryTable(labels.labels()).size() : 1;
  header.num_train = train.num_rows();
  if (files.size() > 1) {
    TableReader validation(config, files[1]);
    check_same_columns(files[0], train.columns(), files[1], validation.columns());
    while (validation.next()) continue;
    header.num_validation = validation.num_rows();
    if (header.num_validation == 0) throw DataError(fmt::format("{}: no samples", files[1]));
  }
  return header;
}

/// The columns of one file as numbers.
struct CsvValues {
  NumberBlocks features;  ///< (rows, features)
  std::vector<std::byte> targets;
};

/// The squares of differences are summed in f64. Targets stay as they are, in f32.
constexpr double largest_feature = 1e150, largest_target = std::numeric_limits<float>::max();

void append_features(const TableReader& table, NumberBlocks& features) {
  for (std::size_t column = 0; column < table.columns().count; ++column)
    if (column != table.columns().target) features.append(table.number(column, largest_feature));
}

template <typename Value>
void append_target(Value value, std::vector<std::byte>& targets) {
  const std::size_t at = targets.size();
  targets.resize(at + sizeof(value));
  std::memcpy(targets.data() + at, &value, sizeof(value));
}

double numeric_target(const TableReader& table, const DataConfig& config) {
  const double value = table.number(table.columns().target, largest_target);
  if (config.targets_are_probabilities && (value < 0 || value > 1)) throw table.no_probability(value);
  return value;
}

/// `path` and `columns` are those of the values. Throws DataError for a feature that f32 does not hold: one so far from
/// the training samples that no network could take it.
std::shared_ptr<const Dataset> make_dataset(CsvValues values, const Standard& standard, bool categorical,
                                            const std::string& path, const TableColumns& columns) {
  const std::size_t num_features = standard.mean.size();
  std::vector<std::byte> samples;
  samples.reserve(values.features.size() * sizeof(float));  // filled as blocks go, so both are never held whole
  std::vector<float> standardised;
  std::size_t feature = 0, row = 1;
  for (std::size_t block = 0; block < values.features.num_blocks(); ++block) {
    standardised.clear();
    for (const double number : values.features.take_block(block)) {
      const double value = (number - standard.origin[feature] - standard.mean[feature]) / standard.std[feature];
      if (std::abs(value) > std::numeric_limits<float>::max()) {
        const std::size_t column = feature < columns.target ? feature : feature + 1;
        throw DataError(
            fmt::format("{}: {:g} in {} of row {} is {:g} standard deviations from the mean of the training samples, "
                        "more than f32 holds",
                        path, number, columns.name_of(column), row, std::abs(value)));
      }
      standardised.push_back(static_cast<float>(value));
      feature = feature + 1 == num_features ? 0 : feature + 1;
      row += feature == 0 ? 1 : 0;
    }
    const auto bytes = std::as_bytes(std::span(standardised));
    samples.insert(samples.end(), bytes.begin(), bytes.end());
  }
  const TensorType target = categorical ? TensorType{DType::i32, Shape{}} : TensorType{DType::f32, Shape{1}};
  return std::make_shared<MemoryDataset>(TensorType{DType::f32, Shape{static_cast<std::int64_t>(num_features)}}, target,
                                         std::move(samples), std::move(values.targets));
}

/// Those that load_data takes for training.
std::vector<std::uint32_t> training_rows(const DataConfig& config, std::int64_t num_rows, std::int64_t num_aside,
                                         std::uint64_t seed) {
  std::optional<std::int64_t> num_train;
  if (config.samples > 0 && config.samples < num_rows - num_aside) num_train = config.samples;
  return split_samples(num_rows, num_aside, seed, num_train).train;
}

Preprocessing preprocessing_of(const TableColumns& columns, const Standard& standard, const CategoryTable& classes) {
  Preprocessing preprocessing;
  for (std::size_t column = 0; column < columns.count; ++column) {
    const bool has_name = column < columns.names.size();
    std::string name = has_name ? escaped(columns.names[column]) : fmt::format("column {}", column);
    if (column == columns.target)
      preprocessing.target = std::move(name);
    else
      preprocessing.features.push_back(std::move(name));
  }
  for (std::size_t i = 0; i < standard.mean.size(); ++i)
    preprocessing.mean.push_back(standard.origin[i] + standard.mean[i]);
  preprocessing.std = standard.std;
  for (const std::string& name : classes.names()) preprocessing.classes.push_back(escaped(name));
  return preprocessing;
}

DatasetContents load_csv(const DataConfig& config, std::uint64_t seed) {
  const std::vector<std::string> files = csv_files(config);
  const bool categorical = is_categorical(config);
  TableReader table(config, files[0]);
  CsvValues train;
  LabelList labels;
  while (table.next()) {
    append_features(table, train.features);
    if (categorical) {
      labels.add(table.label());
    } else {
      append_target(static_cast<float>(numeric_target(table, config)), train.targets);
    }
  }
  const CategoryTable classes(labels.labels());
  if (categorical) {
    std::vector<std::int32_t> class_of_label;
    for (const std::string& label : labels.labels()) class_of_label.push_back(*classes.find(label));
    for (const std::uint32_t label : labels.rows()) append_target(class_of_label[label], train.targets);
  }

  std::optional<CsvValues> validation;
  TableColumns validation_columns;
  if (files.size() > 1) {
    validation.emplace();
    TableReader validation_table(config, files[1]);
    validation_columns = validation_table.columns();
    std::string label;
    while (validation_table.next()) {
      append_features(validation_table, validation->features);
      if (!categorical) {
        append_target(static_cast<float>(numeric_target(validation_table, config)), validation->targets);
        continue;
      }
      label.assign(validation_table.label());
      const auto found = classes.find(label);
      if (!found) throw validation_table.unknown_label(label, files[0]);
      append_target(*found, validation->targets);
    }
  }

  const std::int64_t num_aside = validation ? 0 : num_set_aside(config, table.num_rows());
  const Standard standard =
      standard_of(train.features, table.columns().count - 1, training_rows(config, table.num_rows(), num_aside, seed));
  DatasetContents contents;
  contents.preprocessing = preprocessing_of(table.columns(), standard, classes);
  contents.train = make_dataset(std::move(train), standard, categorical, files[0], table.columns());
  if (validation)
    contents.validation = make_dataset(std::move(*validation), standard, categorical, files[1], validation_columns);
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
