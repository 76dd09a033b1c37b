#pragma once

#include <cstdint>

#include "engine/ops/maxpool2d.h"

namespace trainer {

/// Which elements of an (N, H, W, C) image each window of a pooling covers.
struct Pool2dWindow {
  std::int64_t images, in_height, in_width, channels, out_height, out_width;
  std::int64_t kernel_height, kernel_width, stride_height, stride_width, padding_height, padding_width;

  Pool2dWindow(const Pool2dAttributes& a, const Shape& x, const Shape& y)
      : images(x[0]),
        in_height(x[1]),
        in_width(x[2]),
        channels(x[3]),
        out_height(y[1]),
        out_width(y[2]),
        kernel_height(a.kernel[0]),
        kernel_width(a.kernel[1]),
        stride_height(a.stride[0]),
        stride_width(a.stride[1]),
        padding_height(a.padding[0]),
        padding_width(a.padding[1]) {}

  /// Positions [begin, end) inside the image of a window that starts at `start`, which may lie in the padding.
  struct Range {
    std::int64_t start, begin, end;
  };
  Range rows(std::int64_t out_row) const {
    return range(out_row * stride_height - padding_height, kernel_height, in_height);
  }
  Range columns(std::int64_t out_column) const {
    return range(out_column * stride_width - padding_width, kernel_width, in_width);
  }

  std::int64_t image_elements() const { return in_height * in_width * channels; }
  bool windows_are_apart() const { return stride_height >= kernel_height && stride_width >= kernel_width; }
  /// Every element lies in exactly one window.
  bool covers_each_element_once() const {
    return stride_height == kernel_height && stride_width == kernel_width && padding_height == 0 &&
           padding_width == 0 && out_height * kernel_height == in_height && out_width * kernel_width == in_width;
  }

 private:
  static Range range(std::int64_t start, std::int64_t extent, std::int64_t size) {
    return {start, start < 0 ? 0 : start, start + extent > size ? size : start + extent};
  }
};

}  // namespace trainer
