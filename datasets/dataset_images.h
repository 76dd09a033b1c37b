#pragma once

#include <memory>

#include "datasets/dataset.h"
#include "datasets/image/image_source.h"

namespace trainer {

/// The samples of a dataset of u8 images as stored images, so that transforms can be done to them. Masks of up to 255
/// classes follow them; `ignored_target` is a value of theirs that is no class.
std::shared_ptr<const ImageSource> images_of(std::shared_ptr<const Dataset> dataset, std::int32_t ignored_target);

/// What is known of such images (H, W, C) with such targets.
ImageFacts facts_of_pixels(const TensorType& image, const TensorType& target);

}  // namespace trainer
