#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/image/image.h"

namespace trainer {

/// A prepared sample: its pixels, and for each what its mask says.
struct ShownSample {
  Image image;                        ///< 1, 3 or 4 channels
  std::vector<std::int32_t> classes;  ///< of a mask, by pixel; empty: none
  std::string label;                  ///< under the picture, cut to its width
};

/// Whether samples are pictures: u8 pixels of 1, 3 or 4 channels.
bool are_pictures(const TensorType& sample);

/// Reads samples of the training or the validation data as `epoch` (from 0) prepares them, with their labels: names of
/// classes, or numbers. DataError.
std::vector<ShownSample> read_shown_samples(const LoadedData& data, const Dataset& of,
                                            const std::vector<std::int64_t>& samples, std::int64_t epoch);

/// The samples, which have one size, side by side in rows, in RGB: small ones enlarged and large ones reduced by a
/// whole factor, each with its label below; with masks a second picture beside each, which has a colour for each class,
/// as the last lines say of the first of them, and white where a pixel is left out. Alpha is laid over grey.
Image contact_sheet(const std::vector<ShownSample>& samples, const std::vector<std::string>& classes);

/// The colour of a class in pictures of masks, as red, green, blue.
std::array<std::uint8_t, 3> colour_of_class(std::int32_t label, std::int64_t num_classes);

/// What classes are called, or their numbers.
std::vector<std::string> class_names(const LoadedData& data);

}  // namespace trainer
