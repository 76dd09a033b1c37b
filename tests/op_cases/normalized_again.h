#pragma once

#include "engine/device/device.h"

namespace trainer {

/// The output of batchnorm2d has the same bits where batchnorm2d_normalize makes it anew, also at numbers that only
/// rounding tells from 0, and in place.
void check_normalized_again(Device& device);
/// batchnorm2d_backward with ReLU gives the bits that it gives without, of a gradient that is 0 where the forward pass
/// wrote no number above 0.
void check_gradient_passes_where_output_was_positive(Device& device);

}  // namespace trainer
