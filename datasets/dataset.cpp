#include "datasets/dataset.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>

#include "datasets/dataset_format.h"
#include "datasets/dataset_images.h"
#include "datasets/dataset_list.h"
#include "datasets/image_dataset.h"
#include "datasets/input_file.h"
#include "datasets/split.h"
#include "engine/config/diagnostic.h"
#include "engine/device/processor.h"

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

/// Images that files hold encoded, of any size.
bool holds_image_files(const DataConfig& config) { return config.type == DataType::image_folder; }

bool has_transforms(const DataConfig& config) {
  return !config.train_transforms.empty() || !config.validation_transforms.empty();
}

/// Whether images are prepared as they are read.
bool prepares_images(const DataConfig& config) { return holds_image_files(config) || has_transforms(config); }

void check_keys(const DataConfig& config, const DatasetFormat& format) {
  if (!is_categorical(config) && !format.numeric_targets)
    throw data_config_error(
        config, "data.target_type: numeric needs data.type csv, arrays or synthetic; this type has classes");
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

/// Of a table that is only declared: as if each feature were a column of its own. Where some are the categories of
/// one, reading it takes less.
std::int64_t most_reading_bytes(const DatasetHeader& header) {
  const auto wide = static_cast<std::int64_t>(sizeof(double));
  const std::int64_t target = header.categorical ? static_cast<std::int64_t>(sizeof(std::int32_t))
                                                 : target_of(header).shape.num_elements() * wide;
  return header.sample.shape.num_elements() * wide + target;
}

/// The header from the declared keys alone; nothing where they leave something open.
/// Its counts are those after a split.
bool declared_header(const DataConfig& config, const DatasetFormat& format, DatasetHeader& header) {
  const Shape shape = config.shape.empty() ? format.fixed_shape : Shape(config.shape);
  const std::int64_t classes = config.classes == 0 ? format.fixed_classes : config.classes;
  const bool validation_is_meant = config.split > 0 || !config.validation.empty() ||
                                   !config.validation_labels.empty() || !config.validation_input.empty() ||
                                   !config.validation_target.empty();
  if (shape.rank() == 0 && !holds_image_files(config)) return false;  // else transforms may make one
  if (config.samples == 0) return false;
  if (is_categorical(config) && classes == 0) return false;
  if (validation_is_meant && config.validation_samples == 0) return false;
  header.source = "the declared data";
  header.sample = {shape.rank() == 3 || holds_image_files(config) ? DType::u8 : DType::f32, shape};
  header.categorical = is_categorical(config);
  header.target_shape = Shape(config.target_shape);
  header.num_outputs = header.categorical ? classes : num_numbers(config);
  header.num_train = config.samples;
  header.num_validation = config.validation_samples;
  if (config.type == DataType::csv) header.reading_bytes = most_reading_bytes(header);
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
      throw data_config_error(config,
                              "data.normalize is for images of bytes; features of a csv are standardised by "
                              "themselves, numbers of arrays are "
                              "taken as they are");
    return;
  }
  const std::int64_t num_channels = input.type.shape[-1];
  input.mean = per_channel(config, "mean", config.mean, num_channels, 0.0F);
  input.std = per_channel(config, "std", config.std, num_channels, 1.0F);
  for (const float value : input.std)
    if (value <= 0)
      throw data_config_error(config, fmt::format("data.normalize.std holds {}", value), "positive values");
}

std::int64_t held_bytes(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header,
                        const DataDescription& description) {
  const auto order_bytes = static_cast<std::int64_t>(sizeof(std::uint32_t));
  const std::int64_t num_bytes = prepares_images(config) ? description.num_held * order_bytes : 0;
  if (header.held_bytes) return num_bytes + *header.held_bytes;
  if (format.held_bytes != nullptr) return num_bytes + format.held_bytes(header);
  std::int64_t of_samples = 0;
  const std::int64_t sample_bytes = header.sample.num_bytes() + target_of(header).num_bytes();
  if (__builtin_mul_overflow(description.num_held, sample_bytes, &of_samples))
    return std::numeric_limits<std::int64_t>::max();
  return num_bytes + of_samples;
}

void check_total(const DataConfig& config, const DataDescription& description) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
  if (description.held_bytes <= most_bytes) return;
  throw data_config_error(config, fmt::format("{} samples of {} are more than any machine holds", description.num_held,
                                              description.inputs.front().type.shape.to_string()));
}

std::string size_text(const Pair& size) { return fmt::format("{}×{}", size[0], size[1]); }

/// What becomes of the stored images of a part; `facts` where their sizes are known.
TensorType prepared_type(const DataConfig& config, const TensorType& stored, const ImageFacts* facts,
                         const std::vector<TransformSpec>& transforms, const char* part) {
  const TransformChain chain(transforms);
  std::optional<Pair> size;
  if (stored.shape.rank() == 3) size = Pair{stored.shape[0], stored.shape[1]};
  const std::int64_t channels = stored.shape.rank() == 3 ? stored.shape[2] : config.channels;
  const std::optional<Pair> prepared = chain.size_after(size);
  if (!prepared) {
    const std::string sizes = facts != nullptr
                                  ? fmt::format("from {} to {}", size_text(facts->smallest), size_text(facts->largest))
                                  : std::string("not known without their files and data.shape");
    throw data_config_error(
        config, fmt::format("the sizes of images are {}, and data.transforms.{} does not end in one size", sizes, part),
        "a transform that makes one, such as resize: {size: [224, 224]} or random_resized_crop: {size: 224}");
  }
  return {DType::u8, Shape{(*prepared)[0], (*prepared)[1], chain.channels_after(channels)}};
}

/// A sample as the model meets it.
TensorType sample_type(const DataConfig& config, const DatasetHeader& header, bool has_validation) {
  if (!prepares_images(config)) return header.sample;
  const auto facts_of = [](const auto& images) { return images ? &images->facts() : nullptr; };
  const ImageFacts* const train_facts = facts_of(header.train_images);
  const TensorType train = prepared_type(config, header.sample, train_facts, config.train_transforms, "train");
  if (!has_validation) return train;
  const bool is_own = header.validation_images != nullptr;
  TensorType stored = header.sample;
  if (is_own) {
    const std::optional<Pair> size = header.validation_images->facts().size;
    stored.shape = size ? Shape{(*size)[0], (*size)[1], config.channels} : Shape{};
  }
  const TensorType validation = prepared_type(config, stored, is_own ? facts_of(header.validation_images) : train_facts,
                                              config.validation_transforms, "validation");
  if (validation == train) return train;
  throw data_config_error(
      config,
      fmt::format("training images are {} behind data.transforms.train, validation images {} behind "
                  "data.transforms.validation",
                  train.shape.to_string(), validation.shape.to_string()),
      "transforms that end in the same size and channels");
}

std::int64_t num_set_aside(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header) {
  if (header.num_validation > 0) return 0;
  return num_set_aside(config, header.num_train, format.default_num_validation);
}

/// What transforms can be done to.
void check_transformed(const DataConfig& config, const DatasetHeader& header) {
  const Shape& image = header.sample.shape;
  if (!has_transforms(config) || image.rank() != 3) return;
  if (image[2] != 1 && image[2] != 3 && image[2] != 4)
    throw data_config_error(
        config, fmt::format("{}: data.transforms are for images of 1, 3 or 4 channels; these have {}", header.source,
                            image[2]));
  const Shape& mask = header.target_shape;
  if (mask.rank() == 2 && mask != Shape{image[0], image[1]})
    throw DataError(
        fmt::format("{}: masks of {} cannot follow images of {} through data.transforms; both must have the "
                    "same height and width",
                    header.source, mask.to_string(), image.to_string()));
}

DataDescription describe(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header,
                         std::int64_t num_aside) {
  if (has_transforms(config) && header.sample.dtype != DType::u8)
    throw data_config_error(config, fmt::format("{}: data.transforms are for images of bytes; its samples are {}",
                                                header.source, header.sample.to_string()));
  if (has_transforms(config) && !header.categorical)
    throw data_config_error(config, "data.transforms are for images with classes; the targets are numbers");
  check_transformed(config, header);
  DataDescription description;
  InputDescription& input = description.inputs.emplace_back();
  input.type = sample_type(config, header, header.num_validation + num_aside > 0);
  description.target = target_of(header);
  // A mask has the size of its image.
  if (prepares_images(config) && description.target.shape.rank() == 2)
    description.target.shape = Shape{input.type.shape[0], input.type.shape[1]};
  const bool is_mask = description.target.shape.rank() == 2;
  description.has_negative_targets =
      header.categorical && config.ignored_target < 0 &&
      (config.type == DataType::arrays ||
       (has_transforms(config) && is_mask && TransformChain(config.train_transforms).may_uncover()));
  description.num_outputs = header.num_outputs;
  description.num_train = header.num_train - num_aside;
  description.num_validation = header.num_validation + num_aside;
  description.num_held = header.num_train + header.num_validation;
  description.reading_bytes = header.reading_bytes;
  if (!config.shape.empty()) {
    const std::string found =
        header.sample.shape.rank() > 0 ? header.sample.shape.to_string() : "images of several sizes";
    check_declared(header.source, "shape", Shape(config.shape).to_string(), found);
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
  check_size(config, input.type.shape, "a sample");
  description.held_bytes = held_bytes(config, format, header, description);
  check_total(config, description);
  set_normalization(config, input);
  return description;
}

/// So many of some samples, chosen by the seed; all where that is their number.
std::vector<std::uint32_t> some_of(std::vector<std::uint32_t> samples, std::int64_t count, std::uint64_t seed) {
  if (count == static_cast<std::int64_t>(samples.size())) return samples;
  std::vector<std::uint32_t> chosen = split_samples(static_cast<std::int64_t>(samples.size()), 0, seed, count).train;
  for (std::uint32_t& each : chosen) each = samples[each];
  return chosen;
}

std::vector<std::uint32_t> all_of(std::int64_t count) {
  std::vector<std::uint32_t> samples(static_cast<std::size_t>(count));
  std::iota(samples.begin(), samples.end(), 0U);
  return samples;
}

/// What is read of a part: samples by their number in the whole.
struct PartSource {
  std::shared_ptr<const Dataset> dataset;     ///< or
  std::shared_ptr<const ImageSource> images;  ///< of any size
};

std::shared_ptr<const Dataset> make_part(const DataConfig& config, std::uint64_t seed,
                                         const DataDescription& description, const PartSource& source,
                                         std::vector<std::uint32_t> chosen, bool is_training) {
  if (prepares_images(config)) {
    ImagePreparation preparation;
    preparation.source = source.images ? source.images : images_of(source.dataset, config.ignored_target);
    preparation.chosen = std::move(chosen);
    preparation.transforms = TransformChain(is_training ? config.train_transforms : config.validation_transforms);
    preparation.seed = seed;
    preparation.sample = description.inputs.front().type;
    preparation.target = description.target;
    preparation.channels = config.channels;
    preparation.max_pixels = config.max_pixels;
    preparation.reduced_decoding = config.reduced_decoding;
    preparation.on_bad_sample = config.on_bad_sample;
    return std::make_shared<ImageDataset>(std::move(preparation));
  }
  if (static_cast<std::int64_t>(chosen.size()) == source.dataset->size()) return source.dataset;
  return std::make_shared<SubsetDataset>(source.dataset, std::move(chosen));
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
                              const DatasetHeader& header, const DataDescription& description) {
  const HostOutOfMemory no_memory("the dataset", description.held_bytes, /*depends_on_batches=*/false);
  try {
    return format.load(config, seed, header);
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

namespace {

class DirectReader final : public SampleReader {
 public:
  explicit DirectReader(const Dataset& dataset) : dataset_(dataset) {}
  void read(std::int64_t /*epoch*/, std::int64_t index, std::span<std::byte* const> fields) override {
    dataset_.read(index, fields);
  }
  void read_classes(std::int64_t /*epoch*/, std::int64_t index, std::int32_t* classes) override {
    dataset_.read_classes(index, classes);
  }

 private:
  const Dataset& dataset_;
};

}  // namespace

std::unique_ptr<SampleReader> Dataset::make_reader() const { return std::make_unique<DirectReader>(*this); }

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
  // What reading it all has left on the heap would be measured as the program's own.
  if (format.inspect_reads_everything) malloc_trim(0);
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

  DatasetContents contents;
  if (format.load != nullptr) {
    contents = load_contents(format, config, seed, header, data.description);
    check_unchanged(header, contents);
  } else {
    contents.preprocessing = header.preprocessing;
  }
  data.remarks = header.remarks;
  data.preprocessing = std::move(contents.preprocessing);
  const InputDescription& input = data.description.inputs.front();
  if (!input.mean.empty()) {
    data.preprocessing.mean.assign(input.mean.begin(), input.mean.end());
    data.preprocessing.std.assign(input.std.begin(), input.std.end());
  }
  const std::int64_t num_train = data.description.num_train, num_validation = data.description.num_validation;
  const PartSource train{contents.train, header.train_images};
  const PartSource own_validation{contents.validation, header.validation_images};
  Split split;
  if (num_aside > 0)
    split = split_samples(header.num_train, num_aside, seed, num_train);
  else
    split.train = some_of(all_of(header.num_train), num_train, seed);
  if (header.num_validation > 0) split.validation = all_of(header.num_validation);
  data.train = make_part(config, seed, data.description, train, std::move(split.train), /*is_training=*/true);
  if (num_validation > 0) {
    data.validation = make_part(config, seed, data.description, header.num_validation > 0 ? own_validation : train,
                                some_of(std::move(split.validation), num_validation, seed), /*is_training=*/false);
  }
  return data;
}

int num_workers(const DataConfig& config) {
  if (config.workers > 0) return static_cast<int>(config.workers);
  constexpr int most = 16;
  return prepares_images(config) ? std::clamp(usable_threads() - 1, 1, most) : 1;
}

}  // namespace trainer
