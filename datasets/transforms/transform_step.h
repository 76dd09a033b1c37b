#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "datasets/image/image.h"
#include "engine/config/transform_spec.h"

namespace trainer {

// What is done to one image, with every number drawn: the arguments of torchvision.transforms.v2.functional.

/// Of the whole image.
struct ResizeStep {
  Pair size{0, 0};
  Resampling interpolation = Resampling::bilinear;
};
/// May lie beyond the image, whose border is then made by `mode`.
struct CropStep {
  Region region;
  PadMode mode = PadMode::zeros;
  std::int64_t fill = 0;
};
struct FlipStep {
  FlipDirection direction = FlipDirection::horizontal;
};
/// Counter-clockwise about the centre; the size stays.
struct RotateStep {
  double degrees = 0;
  Resampling interpolation = Resampling::nearest;
  std::int64_t fill = 0;
};
enum class ColorProperty : std::uint8_t { brightness, contrast, saturation, hue };
struct ColorStep {
  ColorProperty property = ColorProperty::brightness;
  double factor = 1;  ///< of hue: the shift
};
struct EraseStep {
  Region region;
  std::int64_t fill = 0;
};
struct GreyStep {
  std::int64_t channels = 1;
};

using TransformStep = std::variant<ResizeStep, CropStep, FlipStep, RotateStep, ColorStep, EraseStep, GreyStep>;

}  // namespace trainer
