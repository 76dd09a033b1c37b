#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "datasets/dataset_description.h"
#include "datasets/dataset_format.h"
#include "datasets/permutation.h"
#include "datasets/tokens/synthetic_tokens.h"

namespace trainer {
namespace {

/// Samples computed when they are read, each from (seed, index) alone: the prototype of its class plus noise. Classes
/// take turns. Images (rank 3) have prototypes of at most 4 × 4 flat patches in each channel, so that convolutions,
/// pooling and plain linear layers all can learn them; features (rank 1) have one number each in (−2, 2).
/// Numeric targets: the sigmoid of a random projection of the sample, one for each output, in (0, 1); for an image with
/// a target of (height, width, channels), the image without its noise, in [0, 1).
/// Classes of a target of (height, width) beside an image: the brightness of the first channel of the patch that lies
/// there, without noise, in as many steps; of another shape: each place's number is added to the sample's class.
class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const DatasetHeader& header, std::int64_t first, std::int64_t size, std::uint64_t seed)
      : Dataset({header.sample}, target_of(header)),
        first_(first),
        size_(size),
        num_outputs_(header.num_outputs),
        num_elements_(header.sample.num_elements()),
        prototypes_{seed, synthetic_prototype_stream, 0},
        projections_{seed, synthetic_target_stream, 0},
        seed_(seed) {
    const Shape& shape = header.sample.shape;
    if (shape.rank() != 3) return;
    height_ = shape[0];
    width_ = shape[1];
    channels_ = shape[2];
    fill_prototype_bytes();
  }

  std::int64_t size() const override { return size_; }
  void read_classes(std::int64_t index, std::int32_t* classes) const override {
    require_internal(categorical(), "classes belong to categorical data");
    write_classes(index, classes);
  }

  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    std::byte* const sample = fields[0];
    std::byte* const target = fields[1];
    if (are_pixels()) {
      write_image(index, sample);
    } else {
      write_features(index, sample);
    }
    if (categorical()) {
      write_classes(index, reinterpret_cast<std::int32_t*>(target));
      return;
    }
    if (are_pixels() && target_type().shape.rank() == 3) {
      write_clean_image(index, reinterpret_cast<float*>(target));
      return;
    }
    for (std::int64_t output = 0; output < num_outputs_; ++output) {
      const float value = projection(sample, output);
      std::memcpy(target + static_cast<std::size_t>(output) * sizeof(value), &value, sizeof(value));
    }
  }

 private:
  static constexpr std::int64_t most_patches = 4;       ///< along each side
  static constexpr std::int64_t num_other_groups = 10;  ///< prototypes where a sample's target is not one class

  bool are_pixels() const { return input_types().front().dtype == DType::u8; }

  std::int64_t num_groups() const {
    return categorical() && target_type().shape.rank() == 0 ? num_outputs_ : num_other_groups;
  }
  std::int64_t group(std::int64_t index) const { return (first_ + index) % num_groups(); }

  /// The first row of prototypes of a sample's image.
  const std::uint8_t* prototype_of(std::int64_t index) const {
    return prototype_bytes_.data() + group(index) * num_patch_rows() * num_patch_columns() * channels_;
  }
  std::int64_t num_patch_rows() const { return std::min(most_patches, height_); }
  std::int64_t num_patch_columns() const { return std::min(most_patches, width_); }

  void write_classes(std::int64_t index, std::int32_t* classes) const {
    const Shape& shape = target_type().shape;
    if (are_pixels() && shape.rank() == 2) {
      for (std::int64_t y = 0; y < shape[0]; ++y) {
        const std::uint8_t* const row =
            prototype_of(index) + y * num_patch_rows() / shape[0] * num_patch_columns() * channels_;
        for (std::int64_t x = 0; x < shape[1]; ++x)
          *classes++ =
              static_cast<std::int32_t>(row[x * num_patch_columns() / shape[1] * channels_] * num_outputs_ / 256);
      }
      return;
    }
    for (std::int64_t place = 0; place < target_type().num_elements(); ++place)
      classes[place] = static_cast<std::int32_t>((group(index) + place) % num_outputs_);
  }

  /// (height, width, channels), all of any size: the prototype of the patch that lies there.
  void write_clean_image(std::int64_t index, float* numbers) const {
    const Shape& shape = target_type().shape;
    for (std::int64_t y = 0; y < shape[0]; ++y) {
      const std::uint8_t* const row =
          prototype_of(index) + y * num_patch_rows() / shape[0] * num_patch_columns() * channels_;
      for (std::int64_t x = 0; x < shape[1]; ++x) {
        const std::uint8_t* const patch = row + x * num_patch_columns() / shape[1] * channels_;
        for (std::int64_t c = 0; c < shape[2]; ++c) *numbers++ = static_cast<float>(patch[c % channels_]) / 256;
      }
    }
  }

  /// Words of sample `index`: its own stream, for up to 2^32 samples.
  PhiloxStream noise(std::int64_t index) const {
    return {seed_, synthetic_noise_stream, static_cast<std::uint32_t>(first_ + index)};
  }

  void fill_prototype_bytes() {
    const std::int64_t num_patches = num_patch_rows() * num_patch_columns();
    prototype_bytes_.resize(static_cast<std::size_t>(num_groups() * num_patches * channels_));
    for (std::size_t i = 0; i < prototype_bytes_.size(); ++i)
      prototype_bytes_[i] = static_cast<std::uint8_t>(prototypes_.word(i) >> 24);
  }

  /// Pixel = (byte of the patch + random byte) / 2.
  void write_image(std::int64_t index, std::byte* sample) const {
    const std::int64_t num_rows = num_patch_rows();
    const std::int64_t num_columns = num_patch_columns();
    const std::uint8_t* prototype = prototype_of(index);
    const PhiloxStream stream = noise(index);
    std::array<std::uint32_t, 4> words{};
    std::uint64_t element = 0;
    for (std::int64_t y = 0; y < height_; ++y) {
      const std::uint8_t* row = prototype + y * num_rows / height_ * num_columns * channels_;
      for (std::int64_t column = 0; column < num_columns; ++column) {
        const std::int64_t num_x = edge(column + 1, num_columns, width_) - edge(column, num_columns, width_);
        for (std::int64_t x = 0; x < num_x; ++x) {
          for (std::int64_t c = 0; c < channels_; ++c, ++element) {
            if (element % 16 == 0) words = stream.words(element / 16);
            const std::uint32_t random = words[element % 16 / 4] >> (8 * (element % 4)) & 0xFFU;
            sample[element] = static_cast<std::byte>((row[column * channels_ + c] + random) / 2);
          }
        }
      }
    }
  }

  /// First position of a patch along an axis.
  static std::int64_t edge(std::int64_t patch, std::int64_t num_patches, std::int64_t length) {
    return (patch * length + num_patches - 1) / num_patches;
  }

  void write_features(std::int64_t index, std::byte* sample) const {
    const auto num_elements = static_cast<std::uint64_t>(num_elements_);
    const std::uint64_t num_blocks = (num_elements + 3) / 4;
    const std::uint64_t first_block = static_cast<std::uint64_t>(group(index)) * num_blocks;
    const PhiloxStream stream = noise(index);
    for (std::uint64_t block = 0; block < num_blocks; ++block) {
      const auto prototype = prototypes_.words(first_block + block);
      const auto random = stream.words(block);
      const std::uint64_t count = std::min<std::uint64_t>(4, num_elements - 4 * block);
      for (std::uint64_t i = 0; i < count; ++i) {
        const float value = symmetric(prototype[i]) + symmetric(random[i]);
        std::memcpy(sample + (4 * block + i) * sizeof(value), &value, sizeof(value));
      }
    }
  }

  /// Uniform in [−1, 1).
  static float symmetric(std::uint32_t word) { return static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-31F; }

  float projection(const std::byte* sample, std::int64_t output) const {
    double sum = 0;
    for (std::int64_t i = 0; i < num_elements_; ++i) {
      const auto element = static_cast<std::uint64_t>(i);
      float value = 0;
      if (are_pixels()) {
        value = static_cast<float>(std::to_integer<int>(sample[element])) / 127.5F - 1;
      } else {
        std::memcpy(&value, sample + element * sizeof(value), sizeof(value));
      }
      sum += double{value} * symmetric(projections_.word(static_cast<std::uint64_t>(output * num_elements_) + element));
    }
    return static_cast<float>(1 / (1 + std::exp(-4 * sum / std::sqrt(static_cast<double>(num_elements_)))));
  }

  std::int64_t first_;
  std::int64_t size_;
  std::int64_t num_outputs_;
  std::int64_t num_elements_;
  std::int64_t height_ = 0, width_ = 0, channels_ = 0;
  PhiloxStream prototypes_;
  PhiloxStream projections_;
  std::uint64_t seed_;
  std::vector<std::uint8_t> prototype_bytes_;  ///< images: (group, patch row, patch column, channel)
};

DatasetHeader inspect_synthetic(const DataConfig& config) {
  const bool categorical = config.target_type == TaskTarget::categorical;
  const bool are_tokens = holds_tokens(config);
  if (are_tokens && (!categorical || !config.target_shape.empty()))
    throw data_config_error(config, "data.shape is missing: of tokens each has the next one as its class",
                            "[height, width, channels] or [features]");
  if (categorical && config.classes < 1)
    throw data_config_error(config, "data.classes is missing: the number of synthetic classes", "at least 1");
  if (config.samples < 1)
    throw data_config_error(config, "data.samples is missing: the number of synthetic training samples", "at least 1");
  // Images keep 16 bytes of prototype for each class and channel.
  constexpr std::int64_t most_classes = std::int64_t{1} << 24;
  const std::int64_t num_channels = config.shape.size() == 3 ? config.shape[2] : 1;
  if (num_channels > most_classes || config.classes > most_classes / num_channels)
    throw data_config_error(config, fmt::format("data.classes {} is too large for synthetic data", config.classes),
                            fmt::format("at most {}, channels counted apart", most_classes));
  DatasetHeader header;
  header.source = "the synthetic data";
  header.sample = {config.shape.size() == 3 ? DType::u8 : DType::f32, Shape(config.shape)};
  if (are_tokens) header.sample = {DType::i32, Shape{config.sequence_length}};
  header.categorical = categorical;
  header.target_shape = are_tokens ? header.sample.shape : Shape(config.target_shape);
  header.num_outputs = categorical ? config.classes : num_numbers(config);
  header.num_train = config.samples;
  header.num_validation = config.validation_samples;
  if (config.split > 0 && config.validation_samples == 0) {
    // `samples` counts what is left for training.
    const double share = config.split / (1 - config.split);
    header.num_validation = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(config.samples)));
  }
  return header;
}

DatasetContents load_synthetic(const DataConfig& config, std::uint64_t seed, const DatasetHeader& /*header*/) {
  const DatasetHeader header = inspect_synthetic(config);
  const auto samples = [&](std::int64_t first, std::int64_t size) -> std::shared_ptr<const Dataset> {
    if (holds_tokens(config))
      return std::make_shared<SyntheticTokens>(
          SyntheticTokensOptions{config.sequence_length, header.num_outputs, first, size, seed});
    return std::make_shared<SyntheticDataset>(header, first, size, seed);
  };
  DatasetContents contents;
  contents.train = samples(0, header.num_train);
  if (header.num_validation > 0) contents.validation = samples(header.num_train, header.num_validation);
  return contents;
}

}  // namespace

DatasetFormat synthetic_format() {
  DatasetFormat format;
  format.numeric_targets = true;
  format.required_files = no_files;
  format.held_bytes = holds_nothing;
  format.inspect = inspect_synthetic;
  format.load = load_synthetic;
  return format;
}

}  // namespace trainer
