#pragma once

#include "engine/device/device.h"

namespace trainer {

/// A conv2d with statistics gives the sums of what it computes, and computes what it does without them, but for the
/// last bit. On a device that has none (DeviceModel::convolution_statistics) nothing is run, unless `in_any_case`.
/// Returns the number of convolutions that were run.
int check_statistics_of_convolutions(Device& device, bool in_any_case = false);

}  // namespace trainer
