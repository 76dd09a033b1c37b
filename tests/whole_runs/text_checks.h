#pragma once

#include "engine/device/device.h"

namespace trainer {

/// A text that is read token by token, or in pieces, has the logits that an evaluation of the whole has, in the memory
/// that its plan tells.
void check_texts(Device& device);

}  // namespace trainer
