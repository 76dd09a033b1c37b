#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/shape.h"

namespace trainer {

/// In which order files have the axes of a tensor that training keeps. Files are PyTorch's.
enum class FileOrder : std::uint8_t {
  same,
  /// (K, C, kh, kw) of what the device keeps as (K, kh, kw, C), channels last as in its images.
  channels_second,
};

// `kept` is the type, or the shape, on the device.

Shape file_shape(FileOrder order, const Shape& kept);
/// Whether its elements follow each other alike in both orders: kernels of 1×1, or one channel.
bool is_in_file_order(FileOrder order, const Shape& kept);
/// Put the elements of a tensor in host memory into the other order, where they are.
void to_file_order(FileOrder order, const TensorType& kept, std::byte* bytes);
void to_device_order(FileOrder order, const TensorType& kept, std::byte* bytes);

}  // namespace trainer
