#pragma once

#include <cstdint>
#include <vector>

#include "datasets/image/image_source.h"
#include "engine/config/transform_spec.h"

namespace trainer {

// Note [Memory of readers]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// A thread that prepares images keeps what it has needed: the largest file and mask, the pixels of the largest image,
// twice where transforms write from one image into another, what a resize has between its two directions, and what
// decoders hold (ImageHeader::working_bytes). It grows to that as it meets the largest. What is computed here from
// the headers is no less than that, and more where transforms read parts of images alone, or where the largest file is
// not that of the largest image: so it is told as estimated.

/// Of host memory that one thread's reader of such images holds at most. `masks`: of files that hold them, or null.
/// `has_masks`: whether a mask follows each image. `channels`: that images are decoded to.
std::int64_t reader_bytes(const ImageFacts& images, const ImageFacts* masks, bool has_masks, std::int64_t channels,
                          const std::vector<TransformSpec>& transforms);

}  // namespace trainer
