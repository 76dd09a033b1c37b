#include "datasets/dataset.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <stdexcept>

#include "datasets/dataset_format.h"
#include "datasets/dataset_list.h"
#include "datasets/input_file.h"
#include "datasets/split.h"
#include "engine/config/diagnostic.h"

namespace trainer {

#define TRAINER_DECLARE_FORMAT(name) DatasetFormat name##_format();
TRAINER_DATASETS(TRAINER_DECLARE_FORMAT)
#undef TRAINER_DECLARE_FORMAT

namespace {

DatasetFormat format_of(DataType type) {
  switch (type) {
#define TRAINER_FORMAT_CASE(name) \
  case DataType::name:            \
    return name##_format();
    TRAINER_DATASETS(TRAINER_FORMAT_CASE)
#undef TRAINER_FORMAT_CASE
  }
  throw InternalError("data.type has no format");
}

/// Bounds what a few digits in a configuration can make this program allocate.
void check_size(const DataConfig& config, const Shape& sample, const char* what) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 30;
  constexpr std::int64_t most_channels = std::int64_t{1} << 16;
  if (sample.num_elements() > most_elements)
    throw data_config_error(config, fmt::format("{} of {} is too large", what, sample.to_string()),
                            fmt::format("at most {} values", most_elements));
  if (sample.rank() == 3 && sample[-1] > most_channels)
    throw data_config_error(config, fmt::format("{} of {} has too many channels", what, sample.to_string()),
                            fmt::format("at most {}", most_channels));
}

void check_keys(const DataConfig& config, const DatasetFormat& format) {
  if (!is_categorical(config) && !format.numeric_targets)
    throw data_config_error(config,
                            "data.target_type: numeric needs data.type csv or synthetic; this type has classes");
  if (config.split < 0 || config.split >= 1 || std::isnan(config.split))
    throw data_config_error(config, fmt::format("data.split {} is not a share of the training samples", config.split),
                            "0 or more and less than 1");
  if (config.split > 0 && !config.validation.empty())
    throw data_config_error(config, "data.split and data.validation both say where validation samples come from",
                            "one of the two");
  if (config.shape.size() > 3 || config.shape.size() == 2)
    throw data_config_error(config, fmt::format("data.shape has {} dimensions", config.shape.size()),
                            "[height, width, channels] or [features]");
  for (const std::int64_t dim : config.shape)
    if (dim < 1) throw data_config_error(config, fmt::format("data.shape holds {}", dim), "positive dimensions");
  if (config.target_shape.size() > 3)
    throw data_config_error(config, fmt::format("data.target_shape has {} dimensions", config.target_shape.size()),
                            "[height, width] of classes, or [height, width, channels] of numbers");
  for (const std::int64_t dim : config.target_shape)
    if (dim < 1) throw data_config_error(config, fmt::format("data.target_shape holds {}", dim), "positive dimensions");
  check_size(config, Shape(config.target_shape), "the target of a sample");
  if (!is_categorical(config) && !config.target_shape.empty() && config.classes > 0)
    throw data_config_error(config, "data.target_shape and data.classes both say how many numbers a target has",
                            "one of the two");
  if (config.classes < 0 || config.samples < 0 || config.validation_samples < 0)
    throw data_config_error(config, "data.classes, data.samples or data.validation_samples is negative");
  if (config.classes > std::numeric_limits<std::int32_t>::max())
    throw data_config_error(config, fmt::format("data.classes {} is too large", config.classes));
}

/// A declared key must say what the files say.
template <typename Value>
void check_declared(const std::string& source, const char* key, const Value& declared, const Value& found) {
  if (declared != found)
    throw DataError(fmt::format("{}: data.{} declares {}, but the data has {}", source, key, declared, found));
}

/// Puts the number of samples that a key asks for in the place of that which the data has, which must be as many or
/// more.
void take_part(const std::string& source, const char* key, std::int64_t asked, std::int64_t& found) {
  if (asked > found) check_declared(source, key, asked, found);
  if (asked > 0) found = asked;
}

/// The header from the declared keys alone; nothing where they leave something open.
/// Its counts are those after a split.
bool declared_header(const DataConfig& config, const DatasetFormat& format, DatasetHeader& header) {
  const Shape shape = config.shape.empty() ? format.fixed_shape : Shape(config.shape);
  const std::int64_t classes = config.classes == 0 ? format.fixed_classes : config.classes;
  const bool validation_is_meant = config.split > 0 || !config.validation.empty() || !config.validation_labels.empty();
  if (shape.rank() == 0 || config.samples == 0) return false;
  if (is_categorical(config) && classes == 0) return false;
  if (validation_is_meant && config.validation_samples == 0) return false;
  header.source = "the declared data";
  header.sample = {shape.rank() == 3 ? DType::u8 : DType::f32, shape};
  header.categorical = is_categorical(config);
  header.target_shape = Shape(config.target_shape);
  header.num_outputs = header.categorical ? classes : num_numbers(config);
  header.num_train = config.samples;
  header.num_validation = config.validation_samples;
  return true;
}

std::vector<float> per_channel(const DataConfig& config, const char* key, const std::vector<double>& values,
                               std::int64_t num_channels, float fallback) {
  const auto channels = static_cast<std::size_t>(num_channels);
  if (values.empty()) return std::vector<float>(channels, fallback);
  if (values.size() != 1 && values.size() != channels)
    throw data_config_error(
        config, fmt::format("data.normalize.{} has {} values for images of {} channels", key, values.size(), channels),
        fmt::format("1 or {} values", channels));
  std::vector<float> result(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    result[c] = static_cast<float>(values[values.size() == 1 ? 0 : c]);
    if (!std::isfinite(result[c]))
      throw data_config_error(config, fmt::format("data.normalize.{} holds a value that is not finite", key));
  }
  return result;
}

void set_normalization(const DataConfig& config, InputDescription& input) {
  if (input.type.dtype != DType::u8) {
    if (!config.mean.empty() || !config.std.empty())
      throw data_config_error(config, "data.normalize is for images; features of a csv are standardised by themselves");
    return;
  }
  const std::int64_t num_channels = input.type.shape[-1];
  input.mean = per_channel(config, "mean", config.mean, num_channels, 0.0F);
  input.std = per_channel(config, "std", config.std, num_channels, 1.0F);
  for (const float value : input.std)
    if (value <= 0)
      throw data_config_error(config, fmt::format("data.normalize.std holds {}", value), "positive values");
}

/// Synthetic samples are made as they are asked for.
std::int64_t bytes_in_memory(const DataConfig& config, const DataDescription& description) {
  std::int64_t num_bytes = 0;
  if (config.type == DataType::synthetic) return 0;
  if (__builtin_mul_overflow(description.num_held, description.sample_bytes(), &num_bytes))
    return std::numeric_limits<std::int64_t>::max();
  return num_bytes;
}

void check_total(const DataConfig& config, const DataDescription& description) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
  if (bytes_in_memory(config, description) <= most_bytes) return;
  throw data_config_error(config, fmt::format("{} samples of {} are more than any machine holds", description.num_held,
                                              description.inputs.front().type.shape.to_string()));
}

std::int64_t num_set_aside(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header) {
  if (header.num_validation > 0) return 0;
  return num_set_aside(config, header.num_train, format.default_num_validation);
}

DataDescription describe(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header,
                         std::int64_t num_aside) {
  DataDescription description;
  InputDescription& input = description.inputs.emplace_back();
  input.type = header.sample;
  description.target = target_of(header);
  description.num_outputs = header.num_outputs;
  description.num_train = header.num_train - num_aside;
  description.num_validation = header.num_validation + num_aside;
  description.num_held = header.num_train + header.num_validation;
  if (!config.shape.empty()) {
    check_declared(header.source, "shape", Shape(config.shape).to_string(), header.sample.shape.to_string());
  }
  if (!config.target_shape.empty()) {
    check_declared(header.source, "target_shape", Shape(config.target_shape).to_string(),
                   header.target_shape.to_string());
  }
  if (config.classes > 0) check_declared(header.source, "classes", config.classes, header.num_outputs);
  take_part(header.source, "samples", config.samples, description.num_train);
  take_part(header.source, "validation_samples", config.validation_samples, description.num_validation);
  if (format.fixed_shape.rank() > 0)
    check_declared(header.source, "shape", header.sample.shape.to_string(), format.fixed_shape.to_string());
  if (format.fixed_classes > 0) check_declared(header.source, "classes", header.num_outputs, format.fixed_classes);

  if (description.num_train < 1) throw DataError(fmt::format("{}: no training samples", header.source));
  constexpr std::int64_t most_samples = std::numeric_limits<std::uint32_t>::max();
  if (description.num_train > most_samples || description.num_validation > most_samples)
    throw DataError(fmt::format("{}: more than {} samples", header.source, most_samples));
  check_size(config, header.sample.shape, "a sample");
  check_total(config, description);
  set_normalization(config, input);
  return description;
}

/// All samples, or so many of them, chosen by the seed.
std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset> all, std::int64_t num_samples,
                                       std::uint64_t seed) {
  if (num_samples == all->size()) return all;
  std::vector<std::uint32_t> chosen = split_samples(all->size(), 0, seed, num_samples).train;
  return std::make_shared<SubsetDataset>(std::move(all), std::move(chosen));
}

/// A file may be replaced between a look at it and its loading.
void check_unchanged(const DatasetHeader& header, const DatasetContents& contents) {
  const std::int64_t num_validation = contents.validation ? contents.validation->size() : 0;
  const std::vector<TensorType> types = {header.sample};
  const auto has_types = [&](const Dataset& dataset) {
    return dataset.input_types() == types && dataset.target_type() == target_of(header);
  };
  const bool same_type = has_types(*contents.train) && (!contents.validation || has_types(*contents.validation));
  if (same_type && contents.train->size() == header.num_train && num_validation == header.num_validation) return;
  throw DataError(fmt::format("{}: the data was changed while it was read; start again", header.source));
}

DatasetContents load_contents(const DatasetFormat& format, const DataConfig& config, std::uint64_t seed,
                              const DataDescription& description) {
  const HostOutOfMemory no_memory("the dataset", bytes_in_memory(config, description), /*depends_on_batches=*/false);
  try {
    return format.load(config, seed);
  } catch (const std::bad_alloc&) {
    throw no_memory;
  } catch (const std::length_error&) {  // of a vector that no address space holds
    throw no_memory;
  }
}

}  // namespace

ConfigError data_config_error(const DataConfig& config, const std::string& message, const std::string& expectation) {
  if (!config.location.file.empty()) return located_error(config.location, message, expectation);
  return ConfigError(expectation.empty() ? message : fmt::format("{}; expected {}", message, expectation));
}

std::string data_path(const DataConfig& config, const std::string& path) {
  return (std::filesystem::path(config.root) / path).string();
}

std::vector<std::string> missing_data_files(const DataConfig& config) {
  std::vector<std::string> missing;
  for (std::string& file : format_of(config.type).required_files(config)) {
    if (!file_exists(file)) missing.push_back(std::move(file));
  }
  return missing;
}

std::string how_to_fetch(const DataConfig& config) {
  namespace fs = std::filesystem;
  fs::path folder = (fs::path(config.root) / "").parent_path();
  std::string name;
  if (config.type == DataType::cifar10) {
    name = "cifar10";
    if (folder.filename() == "cifar-10-batches-bin") folder = folder.parent_path();
  } else if (config.type == DataType::idx && config.train.empty()) {
    const std::string last = folder.filename().string();
    if (last.find("mnist") != std::string::npos) name = "mnist";
    if (last.find("fashion") != std::string::npos) name = "fashion-mnist";
  }
  if (name.empty() && !config.train.empty()) return ", which data.train names";
  const std::string target = folder.empty() ? "." : folder.string();
  if (name.empty() || target.find('\'') != std::string::npos) return "";
  return fmt::format("; scripts/get_data.sh {} '{}' fetches it", name, target);
}

std::int32_t Dataset::class_of(std::int64_t index) const {
  require_internal(target_type_ == TensorType{DType::i32, Shape{}}, "a sample has one class");
  std::int32_t label = 0;
  read_classes(index, &label);
  return label;
}

DataDescription describe_data(const DataConfig& config, std::uint64_t /*seed*/) {
  const DatasetFormat format = format_of(config.type);
  check_keys(config, format);
  const std::vector<std::string> missing = missing_data_files(config);
  DatasetHeader header;
  if ((!missing.empty() || format.inspect_reads_everything) && declared_header(config, format, header))
    return describe(config, format, header, 0);
  if (!missing.empty()) {
    throw DataError(
        fmt::format("no data file '{}'{}; get the data, or declare data.shape, data.classes, data.samples and "
                    "data.validation_samples to describe it without files",
                    missing.front(), how_to_fetch(config)));
  }
  header = format.inspect(config);
  return describe(config, format, header, num_set_aside(config, format, header));
}

LoadedData load_data(const DataConfig& config, std::uint64_t seed) {
  const DatasetFormat format = format_of(config.type);
  check_keys(config, format);
  const std::vector<std::string> missing = missing_data_files(config);
  if (!missing.empty()) throw DataError(fmt::format("no data file '{}'{}", missing.front(), how_to_fetch(config)));
  const DatasetHeader header = format.inspect(config);
  const std::int64_t num_aside = num_set_aside(config, format, header);
  LoadedData data;
  data.description = describe(config, format, header, num_aside);

  DatasetContents contents = load_contents(format, config, seed, data.description);
  check_unchanged(header, contents);
  data.preprocessing = std::move(contents.preprocessing);
  const InputDescription& input = data.description.inputs.front();
  if (!input.mean.empty()) {
    data.preprocessing.mean.assign(input.mean.begin(), input.mean.end());
    data.preprocessing.std.assign(input.std.begin(), input.std.end());
  }
  const std::int64_t num_train = data.description.num_train;
  if (num_aside == 0) {
    data.train = part_of(std::move(contents.train), num_train, seed);
    if (contents.validation)
      data.validation = part_of(std::move(contents.validation), data.description.num_validation, seed);
    return data;
  }
  Split split = split_samples(header.num_train, num_aside, seed, num_train);
  data.train = std::make_shared<SubsetDataset>(contents.train, std::move(split.train));
  data.validation = part_of(std::make_shared<SubsetDataset>(contents.train, std::move(split.validation)),
                            data.description.num_validation, seed);
  return data;
}

}  // namespace trainer
