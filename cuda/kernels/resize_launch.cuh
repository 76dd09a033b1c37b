#pragma once

#include <type_traits>

#include "cuda/kernels/pack.h"
#include "cuda/kernels/pool2d_windows.cuh"
#include "cuda/kernels/resized_shape.h"

namespace trainer::cuda {

enum class ResizeDirection : bool {
  forward,   ///< from x to y
  backward,  ///< from dy to dx
};

/// Calls start(from, to, width, num_packs) with pointers to elements of `type` for ranges of the images, together all
/// of them: width is a std::integral_constant of a pack's channels, and `to` has num_packs of them there, one for a
/// thread each.
template <typename Start>
void start_resize(DType type, const void* from, void* to, const ResizedShape& shape, ResizeDirection direction,
                  Start&& start) {
  const bool is_forward = direction == ResizeDirection::forward;
  const std::int64_t x_elements = shape.x[0] * shape.x[1] * shape.channels;  // of an image
  const std::int64_t y_elements = shape.y[0] * shape.y[1] * shape.channels;
  const std::int64_t from_elements = is_forward ? x_elements : y_elements;
  const std::int64_t to_elements = is_forward ? y_elements : x_elements;
  if (shape.images * to_elements == 0) return;
  with_element_type(type, [&]<typename T>(ElementType<T>) {
    with_pack_width<T>(shape.channels, {from, to}, [&](auto width) {
      constexpr int n = decltype(width)::value;
      for_each_image_range(shape, n, most_pool_packs, [&](std::int64_t first, std::int64_t count) {
        start(static_cast<const T*>(from) + first * from_elements, static_cast<T*>(to) + first * to_elements, width,
              static_cast<unsigned>(pool_int(count * to_elements / n)));
      });
    });
  });
}

}  // namespace trainer::cuda
