#pragma once

#include <cstdint>
#include <optional>

#include "datasets/dataset_format.h"

namespace trainer {

/// Images that files hold encoded, of any size.
inline bool holds_image_files(const DataConfig& config) {
  return config.type == DataType::image_folder || config.type == DataType::image_list ||
         config.type == DataType::segmentation || config.type == DataType::tar;
}

/// Tokens, of a text or synthetic ones: a sample is a sequence of them, its target the same a token on.
inline bool holds_tokens(const DataConfig& config) {
  return config.type == DataType::tokens || config.type == DataType::text ||
         (config.type == DataType::synthetic && config.shape.empty());
}

/// Of the masks of stored images (H, W, C): their height and width; of images of several sizes a shape that stands for
/// what transforms make of them.
Shape mask_shape(const Shape& image);

bool has_transforms(const DataConfig& config);

/// Whether images are prepared as they are read.
bool prepares_images(const DataConfig& config);

/// ConfigError where keys cannot be meant, whatever the files hold.
void check_keys(const DataConfig& config, const DatasetFormat& format);

/// The header from the declared keys alone, with counts after a split; nothing where they leave something open: Note
/// [Declared data].
std::optional<DatasetHeader> declared_header(const DataConfig& config, const DatasetFormat& format);

/// Samples that are set aside for validation: Note [Validation].
std::int64_t num_set_aside(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header);

/// What describe_data() tells, with its errors.
DataDescription describe(const DataConfig& config, const DatasetFormat& format, const DatasetHeader& header,
                         std::int64_t num_aside);

/// data.normalize for an input of pixels, a value for each channel. Throws ConfigError for one that suits none, and for
/// an input of something else.
void set_normalization(const DataConfig& config, InputDescription& input);

}  // namespace trainer
