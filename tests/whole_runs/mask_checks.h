#pragma once

#include "engine/device/device.h"

namespace trainer {

/// Training with ReLU's masks taken from what is kept anyway (max-pooling's indices, dropout's output) gives the losses
/// and weights, bit for bit, of training without, in less memory.
void check_masks_change_no_bit(Device& device);

}  // namespace trainer
