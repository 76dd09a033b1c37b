#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"
#include "engine/ops/mixed_sample.h"

namespace trainer::cuda {

/// y = pixel · scale[c] + offset[c]: pixels (num_pixels, C) of bytes, y of `type`, scale and offset C floats in host
/// memory, which may go when the call returns. Bytes: pixels and y once. FLOPs: 2 an element.
void normalize_pixels(DType type, const std::uint8_t* pixels, void* y, std::int64_t num_pixels,
                      std::span<const float> scale, std::span<const float> offset, Stream stream);

struct MixedImages {
  std::int64_t samples = 0, height = 0, width = 0;
};
/// The same of images each of which is made of two (Note [Mixed batches] in engine/ops/mixed_sample.h): `mixing` says
/// how, one a sample, in device memory. Bytes: pixels twice, y once. FLOPs: 5 an element.
void normalize_mixed_pixels(DType type, const std::uint8_t* pixels, const MixedSample* mixing, void* y,
                            const MixedImages& images, std::span<const float> scale, std::span<const float> offset,
                            Stream stream);

}  // namespace trainer::cuda
