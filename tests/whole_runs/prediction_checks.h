#pragma once

#include "engine/device/device.h"

namespace trainer {

/// What a model predicts is what an evaluation's loss reads, bit for bit, in the memory that its plan tells.
void check_predictions(Device& device);

}  // namespace trainer
