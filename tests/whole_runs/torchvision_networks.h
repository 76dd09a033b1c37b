#pragma once

#include <string>

#include "engine/device/device.h"

namespace trainer {

/// Logits, loss, gradients and running statistics of tests/golden/torchvision_<name> are PyTorch's: weights that a
/// formula makes are written under torchvision's names, loaded through the contract of weights.file, and one step is
/// taken.
void check_torchvision_network(Device& device, const std::string& name);

}  // namespace trainer
