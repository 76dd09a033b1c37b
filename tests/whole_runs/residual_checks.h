#pragma once

#include "engine/device/device.h"

namespace trainer {

/// Residual blocks whose sums are part of batch norms and layer norms train, in f32, to the losses, bit for bit, of
/// blocks that an op without effect keeps apart, in no more memory.
void check_fused_residuals_change_no_bit(Device& device);

}  // namespace trainer
