#pragma once

#include <string>

#include "engine/device/device.h"

namespace trainer {

// What every device promises of updates, beyond single ones.

/// bf16 weights move by the mean of what they are updated by, to one of the two numbers beside it; by the same bits for
/// the same seed, stream and update, and by others for another.
void check_stochastic_rounding(Device& device);
/// 8-bit moments are within the errors of Note [8-bit moments], of numbers from 1e-12 to 1; those above zero stay there
/// in the second, and one that is not finite shows in its block.
void check_moment_errors(Device& device);
/// 300 updates of AdamW on a quadratic with curvatures from 0.01 to 10 and noise, with 8-bit moments and in f32, and
/// with bf16 weights too.
void check_training_with_8_bit_moments(Device& device);
/// An update of any types tells of each weight that it makes not finite, be it by a gradient or by what it was before,
/// wherever it stands; of none else, and of none where it changes nothing.
void check_lost_weights(Device& device);
/// Scales, trackers and weights as of torch.amp.GradScaler, from tests/golden/grad_scaler.txt.
void check_loss_scale_sequences(Device& device, const std::string& golden_file);

}  // namespace trainer
