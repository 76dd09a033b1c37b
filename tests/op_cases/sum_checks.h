#pragma once

#include "engine/device/device.h"

namespace trainer {

/// Batch norm with an addend, layer norm of a sum and the gradient of the former give what two ops give, number for
/// number: batch norm's outputs in f32 (in 16 bit the two ops round between them), the others in every type.
void check_sums_equal_two_ops(Device& device);

}  // namespace trainer
