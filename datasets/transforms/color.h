#pragma once

#include "datasets/image/image.h"
#include "datasets/transforms/transform_step.h"

namespace trainer {

/// As torchvision.transforms.v2.functional.adjust_brightness, …_contrast, …_saturation and …_hue do to bytes, in single
/// precision. The saturation and the hue of grey images stay, and the fourth channel of an image of four.
void adjust_color(const ColorStep& step, Image& image);

}  // namespace trainer
