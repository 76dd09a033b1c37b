#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// y = pixel · scale[c] + offset[c]: pixels (num_pixels, C) of bytes, y of `type`, scale and offset C floats in host
/// memory, which may go when the call returns. Bytes: pixels and y once. FLOPs: 2 an element.
void normalize_pixels(DType type, const std::uint8_t* pixels, void* y, std::int64_t num_pixels,
                      std::span<const float> scale, std::span<const float> offset, Stream stream);

}  // namespace trainer::cuda
