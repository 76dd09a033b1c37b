#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "datasets/csv_records.h"
#include "datasets/dataset_format.h"
#include "datasets/memory_dataset.h"
#include "datasets/split.h"
#include "engine/config/text/utf8_text.h"

// Tables: one sample a record, numbers in every column but the target's.
//
// Note [Standardised features]
// Each feature becomes (x − mean) / std with the mean and the population standard deviation of the training samples
// (those left after a split and by data.samples); validation uses the same two numbers. A column that is constant in
// training becomes 0. All of it is done in f64, on differences to the column's first value: only the result is rounded
// to f32, so that numbers far from zero, such as timestamps, keep what tells them apart. Numeric targets are left as
// they are.

namespace trainer {
namespace {

std::string_view trimmed(const CsvField& field) {
  std::string_view text = field.text;
  if (field.quoted) return text;
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<double> number_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

char delimiter_of(const DataConfig& config) {
  if (config.delimiter == "\\t" || config.delimiter == "tab") return '\t';
  if (config.delimiter.size() != 1 || std::string_view("\"\r\n").find(config.delimiter[0]) != std::string_view::npos)
    throw data_config_error(config, fmt::format("data.delimiter '{}' cannot separate fields", config.delimiter),
                            "one character, such as ',', ';' or '\\t'");
  return config.delimiter[0];
}

/// A usual delimiter in `text` that is not the one its fields were separated by: what to write in data.delimiter.
std::optional<std::string_view> other_delimiter(std::string_view text, char delimiter) {
  constexpr std::array<std::pair<char, std::string_view>, 4> usual = {
      {{';', "';'"}, {'\t', "tab"}, {',', "','"}, {'|', "'|'"}}};
  for (const auto& [character, value] : usual)
    if (character != delimiter && text.find(character) != std::string_view::npos) return value;
  return std::nullopt;
}

/// Classes by name. Where all labels of the training file are numbers they are ordered and compared as numbers ("1" is
/// "1.0"), else as text.
class ClassTable {
 public:
  explicit ClassTable(const std::vector<std::string>& labels) {
    numeric_ =
        std::all_of(labels.begin(), labels.end(), [](const auto& label) { return number_in(label).has_value(); });
    if (numeric_) {
      std::map<double, std::string> by_number;
      for (const std::string& label : labels) by_number.emplace(*number_in(label), label);
      for (auto& [number, label] : by_number) {
        class_of_number_[number] = static_cast<std::int32_t>(names_.size());
        names_.push_back(fmt::format("{}", number));
      }
    } else {
      names_ = labels;
      std::sort(names_.begin(), names_.end());
      for (std::size_t i = 0; i < names_.size(); ++i) class_of_text_[names_[i]] = static_cast<std::int32_t>(i);
    }
  }

  std::optional<std::int32_t> find(const std::string& label) const {
    if (numeric_) {
      const auto number = number_in(label);
      const auto found = number ? class_of_number_.find(*number) : class_of_number_.end();
      return found == class_of_number_.end() ? std::nullopt : std::optional(found->second);
    }
    const auto found = class_of_text_.find(label);
    return found == class_of_text_.end() ? std::nullopt : std::optional(found->second);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  bool numeric_ = false;
  std::vector<std::string> names_;
  std::map<double, std::int32_t> class_of_number_;
  std::unordered_map<std::string, std::int32_t> class_of_text_;
};

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

/// The columns of a file: which is the target, and what they are called in messages.
struct Columns {
  std::size_t count = 0;
  std::size_t target = 0;
  std::vector<std::string> names;  ///< empty without a header
  std::string name_of(std::size_t column) const {
    return column < names.size() ? fmt::format("column '{}'", names[column]) : fmt::format("column {}", column);
  }
};

std::size_t find_target(const DataConfig& config, const std::string& file, const Columns& columns) {
  if (config.target.empty()) return columns.count - 1;
  const auto named = std::find(columns.names.begin(), columns.names.end(), config.target);
  if (named != columns.names.end()) return static_cast<std::size_t>(named - columns.names.begin());
  std::size_t index = 0;
  const char* const end = config.target.data() + config.target.size();
  const auto [stop, error] = std::from_chars(config.target.data(), end, index);
  const bool is_number = error == std::errc() && stop == end;
  if (is_number && index < columns.count) return index;
  if (columns.names.empty())
    throw data_config_error(config,
                            fmt::format("data.target '{}' is not a column of '{}', which has {} and no header",
                                        config.target, file, columns.count),
                            fmt::format("a number from 0 to {}", columns.count - 1));
  constexpr std::size_t most_shown = 12;
  std::string known;
  for (std::size_t i = 0; i < std::min(most_shown, columns.names.size()); ++i)
    known += (i == 0 ? "" : ", ") + columns.names[i];
  if (columns.names.size() > most_shown) known += ", …";
  throw data_config_error(config, fmt::format("data.target '{}' is not a column of '{}'", config.target, file),
                          fmt::format("one of {}; or a number from 0 to {}", known, columns.count - 1));
}

/// Reads a file record by record, past its header, each record checked to have all columns.
class CsvTable {
 public:
  CsvTable(const DataConfig& config, const std::string& path)
      : file_(path), delimiter_(delimiter_of(config)), has_header_(config.header), records_(file_, delimiter_) {
    pending_ = records_.next();
    if (!pending_) throw DataError(fmt::format("{}: is empty, expected a table", path));
    columns_.count = records_.fields().size();
    if (columns_.count < 2) throw one_column();
    if (has_header_) {
      for (const CsvField& name : records_.fields()) columns_.names.emplace_back(trimmed(name));
      pending_ = false;
    }
    columns_.target = find_target(config, path, columns_);
    if (has_header_ && names_are_numbers())
      throw records_.error(records_.line(), 1,
                           "numbers in place of the columns' names; write data.header: false if this line is a "
                           "sample, or put the names in quotes");
  }

  bool next() {
    const bool found = pending_ || records_.next();
    pending_ = false;
    if (!found) return false;
    const auto fields = records_.fields();
    if (fields.size() != columns_.count) {
      const CsvField& at = fields[std::min(fields.size() - 1, columns_.count)];
      throw records_.error(at, fmt::format("{} fields, expected {}", fields.size(), columns_.count));
    }
    ++num_rows_;
    return true;
  }

  const Columns& columns() const { return columns_; }
  const CsvField& field(std::size_t column) const { return records_.fields()[column]; }
  const CsvField& target() const { return field(columns_.target); }
  std::int64_t num_rows() const { return num_rows_; }

  /// Of at most `largest` in size.
  double number(std::size_t column, double largest) const {
    const CsvField& at = field(column);
    const std::string_view text = trimmed(at);
    if (text.empty()) throw missing_value(column);
    if (const auto value = number_in(text); value && std::abs(*value) <= largest) return *value;
    throw records_.error(at, fmt::format("'{}' in {}, expected a finite number of at most {:g} in size{}",
                                         shortened(text), columns_.name_of(column), largest, hint_for(text)));
  }
  std::string_view label() const {
    const std::string_view text = trimmed(target());
    if (text.empty()) throw missing_value(columns_.target);
    return text;
  }
  DataError no_probability(double value) const {
    return records_.error(target(), fmt::format("{} in {}, expected a target from 0 to 1: loss bce_with_logits takes "
                                                "probabilities",
                                                value, columns_.name_of(columns_.target)));
  }
  DataError unknown_label(std::string_view label, const std::string& train) const {
    return records_.error(target(), fmt::format("class '{}' in {} does not occur in {}", shortened(label),
                                                columns_.name_of(columns_.target), train));
  }

 private:
  static std::string shortened(std::string_view text) {
    constexpr std::size_t most_shown = 40;
    return text.size() <= most_shown ? std::string(text) : std::string(text.substr(0, most_shown)) + "…";
  }
  DataError one_column() const {
    const auto other = other_delimiter(records_.fields().front().text, delimiter_);
    return records_.error(records_.line(), 1,
                          fmt::format("one column, expected features and a target separated by '{}'; {}", delimiter_,
                                      other ? fmt::format("write data.delimiter: {}", *other) : "see data.delimiter"));
  }
  /// Whether the header reads like a sample: a number over each feature, other than the columns' own indices. What is
  /// in quotes is a name.
  bool names_are_numbers() const {
    bool are_indices = true;
    for (std::size_t column = 0; column < columns_.count; ++column) {
      if (column == columns_.target) continue;
      const CsvField& name = field(column);
      const auto number = name.quoted ? std::nullopt : number_in(trimmed(name));
      if (!number) return false;
      are_indices = are_indices && *number == static_cast<double>(column);
    }
    return !are_indices;
  }
  /// What to write in the configuration where `text`, which is no number, shows how the file is meant to be read.
  std::string hint_for(std::string_view text) const {
    if (number_in(text)) return "";
    if (const auto other = other_delimiter(text, delimiter_)) return fmt::format("; write data.delimiter: {}", *other);
    if (!has_header_ && num_rows_ == 1) return "; write data.header: true if this line names the columns";
    return "";
  }
  DataError missing_value(std::size_t column) const {
    return records_.error(
        field(column), fmt::format("no value in {}; fill missing values or remove the row", columns_.name_of(column)));
  }

  InputFile file_;
  char delimiter_;
  bool has_header_;
  CsvRecords records_;
  Columns columns_;
  bool pending_ = false;  ///< the first record is read and not yet handed out
  std::int64_t num_rows_ = 0;
};

std::vector<std::string> csv_files(const DataConfig& config) {
  if (config.train.empty()) throw data_config_error(config, "data.train is missing", "the path of a csv file");
  std::vector<std::string> files = {data_path(config, config.train)};
  if (!config.validation.empty()) files.push_back(data_path(config, config.validation));
  return files;
}

void check_same_columns(const std::string& train, const Columns& columns, const std::string& validation,
                        const Columns& others) {
  if (columns.count != others.count)
    throw DataError(fmt::format("{} has {} columns, but {} has {}", validation, others.count, train, columns.count));
  for (std::size_t i = 0; i < columns.names.size(); ++i) {
    if (columns.names[i] != others.names[i])
      throw DataError(fmt::format("{}:1: column {} is '{}', but '{}' in {}", validation, i, others.names[i],
                                  columns.names[i], train));
  }
}

DatasetHeader inspect_csv(const DataConfig& config) {
  const std::vector<std::string> files = csv_files(config);
  CsvTable train(config, files[0]);
  LabelList labels;
  while (train.next())
    if (is_categorical(config)) labels.add(train.label());
  DatasetHeader header;
  header.source = files[0];
  header.sample = {DType::f32, Shape{static_cast<std::int64_t>(train.columns().count) - 1}};
  header.categorical = is_categorical(config);
  header.num_outputs = header.categorical ? ClassTable(labels.labels()).size() : 1;
  header.num_train = train.num_rows();
  if (files.size() > 1) {
    CsvTable validation(config, files[1]);
    check_same_columns(files[0], train.columns(), files[1], validation.columns());
    while (validation.next()) continue;
    header.num_validation = validation.num_rows();
    if (header.num_validation == 0) throw DataError(fmt::format("{}: no samples", files[1]));
  }
  return header;
}

/// Numbers that are appended one by one and later taken block by block, each block's memory given back behind it: no
/// more is held on the way to f32 than these 8 bytes a number.
class NumberBlocks {
 public:
  static constexpr std::size_t block_size = 1 << 16;

  void append(double value) {
    if (blocks_.empty() || blocks_.back().size() == block_size) blocks_.emplace_back().reserve(block_size);
    blocks_.back().push_back(value);
  }
  std::size_t size() const { return blocks_.empty() ? 0 : (blocks_.size() - 1) * block_size + blocks_.back().size(); }
  double operator[](std::size_t i) const { return blocks_[i / block_size][i % block_size]; }
  std::size_t num_blocks() const { return blocks_.size(); }
  std::vector<double> take_block(std::size_t block) { return std::exchange(blocks_[block], {}); }

 private:
  std::vector<std::vector<double>> blocks_;  ///< all but the last one full
};

/// The columns of one file as numbers.
struct CsvValues {
  NumberBlocks features;  ///< (rows, features)
  std::vector<std::byte> targets;
};

/// The squares of differences are summed in f64. Targets stay as they are, in f32.
constexpr double largest_feature = 1e150, largest_target = std::numeric_limits<float>::max();

void append_features(const CsvTable& table, NumberBlocks& features) {
  for (std::size_t column = 0; column < table.columns().count; ++column)
    if (column != table.columns().target) features.append(table.number(column, largest_feature));
}

template <typename Value>
void append_target(Value value, std::vector<std::byte>& targets) {
  const std::size_t at = targets.size();
  targets.resize(at + sizeof(value));
  std::memcpy(targets.data() + at, &value, sizeof(value));
}

double numeric_target(const CsvTable& table, const DataConfig& config) {
  const double value = table.number(table.columns().target, largest_target);
  if (config.targets_are_probabilities && (value < 0 || value > 1)) throw table.no_probability(value);
  return value;
}

struct Standard {
  std::vector<double> origin;     ///< by feature: the first value
  std::vector<double> mean, std;  ///< by feature, of the differences to the origin
};

/// Mean and standard deviation over the given rows; see Note [Standardised features].
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

/// `path` and `columns` are those of the values. Throws DataError for a feature that f32 does not hold: one so far from
/// the training samples that no network could take it.
std::shared_ptr<const Dataset> make_dataset(CsvValues values, const Standard& standard, bool categorical,
                                            const std::string& path, const Columns& columns) {
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

Preprocessing preprocessing_of(const Columns& columns, const Standard& standard, const ClassTable& classes) {
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
  CsvTable table(config, files[0]);
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
  const ClassTable classes(labels.labels());
  if (categorical) {
    std::vector<std::int32_t> class_of_label;
    for (const std::string& label : labels.labels()) class_of_label.push_back(*classes.find(label));
    for (const std::uint32_t label : labels.rows()) append_target(class_of_label[label], train.targets);
  }

  std::optional<CsvValues> validation;
  Columns validation_columns;
  if (files.size() > 1) {
    validation.emplace();
    CsvTable validation_table(config, files[1]);
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
