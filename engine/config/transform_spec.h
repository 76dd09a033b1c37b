#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/config/layer_spec.h"
#include "engine/source_location.h"

namespace trainer {

// Steps from a stored image to a sample. Names, defaults and meanings are those of torchvision.transforms.v2; sizes are
// (height, width).

/// How pixels between pixels are found. The linear and the cubic one are antialiased where an image becomes smaller.
enum class Resampling : std::uint8_t { nearest, bilinear, bicubic };
enum class FlipDirection : std::uint8_t { horizontal, vertical };

using Range = std::vector<double>;  ///< two numbers: from the first to the second

struct ResizeSpec {
  std::vector<std::int64_t> size;  ///< one: of the shorter side, which keeps the aspect; two: height and width
  Resampling interpolation = Resampling::bilinear;
};
struct CenterCropSpec {
  Pair size{0, 0};  ///< an image that is smaller gets a border of zeros
};
struct RandomCropSpec {
  Pair size{0, 0};
  Sides padding{0, 0, 0, 0};  ///< (top, bottom, left, right), before the crop
  bool pad_if_needed = false;
  PadMode mode = PadMode::zeros;
  std::int64_t fill = 0;  ///< of PadMode::zeros
};
struct RandomResizedCropSpec {
  Pair size{0, 0};
  Range scale{0.08, 1.0};             ///< the crop's share of the image's area
  Range ratio{3.0 / 4.0, 4.0 / 3.0};  ///< its width over its height
  Resampling interpolation = Resampling::bilinear;
};
struct FlipSpec {
  FlipDirection direction = FlipDirection::horizontal;
  double p = 0.5;
};
struct RotateSpec {
  std::vector<double> degrees;  ///< one: from minus it to it; two: from the first to the second; counter-clockwise
  Resampling interpolation = Resampling::nearest;
  std::int64_t fill = 0;
};
/// Each: one number f: a factor from max(0, 1 − f) to 1 + f, for hue a shift from −f to f of the whole circle; two:
/// from the first to the second; none: left alone.
struct ColorJitterSpec {
  std::vector<double> brightness, contrast, saturation, hue;
};
struct RandomErasingSpec {
  double p = 0.5;
  Range scale{0.02, 0.33};
  Range ratio{0.3, 3.3};
  std::int64_t fill = 0;
};
struct ToGreySpec {
  double p = 1.0;             ///< below 1 the channels stay as many
  std::int64_t channels = 1;  ///< 1, or 3 that are equal
};

/// Of training batches, by how much a sample and another one of its batch become one.
struct MixUpSpec {
  double alpha = 1.0;  ///< the share of a sample is of the distribution Beta(alpha, alpha)
  double p = 1.0;      ///< of a batch
};
/// Likewise, by a box of the other one's.
struct CutMixSpec {
  double alpha = 1.0;
  double p = 1.0;
};

using TransformVariant =
    std::variant<ResizeSpec, CenterCropSpec, RandomCropSpec, RandomResizedCropSpec, FlipSpec, RotateSpec,
                 ColorJitterSpec, RandomErasingSpec, ToGreySpec, MixUpSpec, CutMixSpec>;

struct TransformSpec {
  std::string kind;  ///< as written, such as "random_crop"
  TransformVariant spec;
  SourceLocation location = {};

  bool is_of_batches() const {
    return std::holds_alternative<MixUpSpec>(spec) || std::holds_alternative<CutMixSpec>(spec);
  }
};

}  // namespace trainer
