#include "datasets/dataset_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "datasets/cached_images.h"
#include "datasets/dataset_images.h"
#include "datasets/reader_memory.h"
#include "datasets/split.h"
#include "datasets/transforms/transform_chain.h"
#include "engine/config/diagnostic.h"

namespace trainer {
namespace {

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

/// Of a thread that prepares images, for training and for evaluation.
void count_reader_memory(const DataConfig& config, const DatasetHeader& header, DataDescription& description) {
  if (!prepares_images(config)) return;
  ImageFacts declared;
  const Shape& shape = header.sample.shape;
  if (shape.rank() == 3) declared = facts_of_pixels(header.sample, target_of(header));
  const auto count = [&](const std::shared_ptr<const ImageSource>& images, const auto& transforms) {
    const ReaderMemory memory =
        reader_memory({.images = images ? images->facts() : declared,
                       .masks = images ? images->mask_facts() : nullptr,
                       .has_masks = target_of(header).shape.rank() == 2 && header.categorical,
                       .channels = holds_image_files(config) || shape.rank() != 3 ? config.channels : shape[2],
                       .transforms = transforms,
                       .is_cached = config.cache != ImageCaching::none});
    description.reader_bytes += memory.total();
    description.reader_library_bytes += memory.libwebp;
  };
  description.estimates_readers = holds_image_files(config) && !header.train_images;
  count(header.train_images, config.train_transforms);
  if (description.num_validation > 0)
    count(header.validation_images ? header.validation_images : header.train_images, config.validation_transforms);
}

/// Of both parts: of data that is declared, where sizes are.
std::int64_t cache_bytes_of(const DataConfig& config, const DatasetHeader& header, const DataDescription& description) {
  if (config.cache == ImageCaching::none) return 0;
  ImageFacts declared;
  if (header.sample.shape.rank() == 3) declared = facts_of_pixels(header.sample, target_of(header));
  const bool is_unknown = !header.train_images && header.sample.shape.rank() != 3;
  if (is_unknown && !TransformChain(fixed_transforms(config.train_transforms)).size_after(std::nullopt))
    throw data_config_error(config, "what data.cache takes is not known without the images",
                            "data.shape, that of the largest one, or a resize to one size first");
  const bool has_masks = target_of(header).shape.rank() == 2 && header.categorical;
  const auto facts_of = [&](const auto& images) -> const ImageFacts& { return images ? images->facts() : declared; };
  const bool has_own = header.num_validation > 0;
  const std::int64_t of_train = cache_bytes(config, {facts_of(header.train_images), has_masks, config.train_transforms,
                                                     header.num_train, description.num_train});
  if (description.num_validation == 0) return of_train;
  return of_train +
         cache_bytes(config, {facts_of(header.validation_images ? header.validation_images : header.train_images),
                              has_masks, config.validation_transforms,
                              has_own ? header.num_validation : header.num_train, description.num_validation});
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

/// What mixup and cutmix can be done to.
void check_mixed(const DataConfig& config, const DatasetHeader& header, const DataDescription& description) {
  if (config.batch_transforms.empty()) return;
  const TransformSpec& first = config.batch_transforms.front();
  const TensorType& sample = description.inputs.front().type;
  if (sample.dtype != DType::u8)
    throw located_error(first.location, fmt::format("{}: {} mixes images of bytes; its samples are {}", header.source,
                                                    first.kind, sample.to_string()));
  if (description.target.shape.rank() > (header.categorical ? 0 : 1))
    throw located_error(first.location,
                        fmt::format("{}: {} mixes targets of one class, or of a list of numbers; its targets are {}",
                                    header.source, first.kind, description.target.to_string()));
}

bool leaves_pixels_out(const MaskClasses& classes) {
  const auto is_left_out = [](const MaskClasses::OfValue& each) { return each.of_class < 0; };
  return classes.leaves_others_out || std::any_of(classes.values.begin(), classes.values.end(), is_left_out);
}

/// Those that keys name are of the vocabulary.
void check_special_tokens(const DataConfig& config, const DatasetHeader& header) {
  const auto check = [&](const char* key, const std::optional<std::int64_t>& token) {
    if (token && *token >= header.num_outputs)
      throw data_config_error(
          config, fmt::format("data.{} {} is no token of a vocabulary of {}", key, *token, header.num_outputs),
          fmt::format("a token of at most {}, or data.classes of more", header.num_outputs - 1));
  };
  check("document_token", config.document_token);
  check("pad_token", config.pad_token);
  check("mask_token", config.mask_token);
}

}  // namespace

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

Shape mask_shape(const Shape& image) { return image.rank() == 3 ? Shape{image[0], image[1]} : Shape{1, 1}; }

bool has_transforms(const DataConfig& config) {
  return !config.train_transforms.empty() || !config.validation_transforms.empty();
}

bool prepares_images(const DataConfig& config) { return holds_image_files(config) || has_transforms(config); }

void check_keys(const DataConfig& config, const DatasetFormat& format) {
  if (!is_categorical(config) && !format.numeric_targets)
    throw data_config_error(
        config,
        "data.target_type: numeric needs data.type csv, arrays, image_list or synthetic; this type has classes");
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

std::optional<DatasetHeader> declared_header(const DataConfig& config, const DatasetFormat& format) {
  const bool are_tokens = holds_tokens(config);
  const Shape shape = are_tokens             ? Shape{config.sequence_length}
                      : config.shape.empty() ? format.fixed_shape
                                             : Shape(config.shape);
  const std::int64_t classes = config.classes == 0 ? format.fixed_classes : config.classes;
  const bool validation_is_meant = config.split > 0 || !config.validation.empty() ||
                                   !config.validation_labels.empty() || !config.validation_input.empty() ||
                                   !config.validation_target.empty();
  if (shape.rank() == 0 && !holds_image_files(config)) return std::nullopt;  // else transforms may make one
  if (config.samples == 0) return std::nullopt;
  if (is_categorical(config) && classes == 0) return std::nullopt;
  if (validation_is_meant && config.validation_samples == 0) return std::nullopt;
  DatasetHeader header;
  header.source = "the declared data";
  header.sample = {shape.rank() == 3 || holds_image_files(config) ? DType::u8 : DType::f32, shape};
  if (are_tokens) header.sample.dtype = DType::i32;
  header.categorical = is_categorical(config);
  header.target_shape = are_tokens                              ? shape
                        : config.type == DataType::segmentation ? mask_shape(shape)
                                                                : Shape(config.target_shape);
  header.num_outputs = header.categorical ? classes : num_numbers(config);
  header.num_train = config.samples;
  header.num_validation = config.validation_samples;
  if (config.type == DataType::csv) header.reading_bytes = most_reading_bytes(header);
  if (config.pad_token) header.held_bytes = bytes_of_document_begins(header);
  return header;
}

std::int64_t num_set_aside(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header) {
  if (header.num_validation > 0) return 0;
  return num_set_aside(config, header.num_train, format.default_num_validation);
}

DataDescription describe(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header,
                         std::int64_t num_aside) {
  if (has_transforms(config) && config.type == DataType::synthetic)
    throw located_error(config.train_transforms.front().location,
                        fmt::format("{} is done to stored images; of synthetic ones batches alone are mixed",
                                    config.train_transforms.front().kind),
                        "mixup and cutmix, or another data.type");
  if (has_transforms(config) && header.sample.dtype != DType::u8)
    throw data_config_error(config, fmt::format("{}: data.transforms are for images of bytes; its samples are {}",
                                                header.source, header.sample.to_string()));
  if (has_transforms(config) && !header.categorical && !holds_image_files(config))
    throw data_config_error(config, "data.transforms are for images with classes; the targets are numbers");
  check_transformed(config, header);
  check_special_tokens(config, header);
  DataDescription description;
  InputDescription& input = description.inputs.emplace_back();
  input.type = sample_type(config, header, header.num_validation + num_aside > 0);
  if (input.type.dtype == DType::i32) input.num_indices = header.num_outputs;
  description.target = target_of(header);
  // A mask has the size of its image.
  if (prepares_images(config) && description.target.shape.rank() == 2)
    description.target.shape = Shape{input.type.shape[0], input.type.shape[1]};
  const bool is_mask = description.target.shape.rank() == 2;
  description.has_negative_targets =
      header.categorical && config.ignored_target < 0 && config.batch_transforms.empty() &&
      (config.type == DataType::arrays || config.mask_token || config.pad_token ||
       (has_transforms(config) && is_mask && TransformChain(config.train_transforms).may_uncover()) ||
       leaves_pixels_out(config.mask_classes));
  description.num_outputs = header.num_outputs;
  check_mixed(config, header, description);
  description.mixes_batches = !config.batch_transforms.empty();
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
  count_reader_memory(config, header, description);
  description.cache_bytes = cache_bytes_of(config, header, description);
  description.num_readers = num_workers(config);
  check_total(config, description);
  set_normalization(config, input);
  return description;
}

}  // namespace trainer
