#pragma once

#include <iosfwd>

#include "engine/device/device.h"

namespace trainer {

/// What each op takes on a device, one after the other: a line of JSON for the largest case of each, to be held against
/// those of another build. $TRAINER_TIMED_OPS: only ops of such names, as "linear*"; $TRAINER_SECONDS_PER_OP: 0.1.
void time_ops(Device& device, std::ostream& lines);

}  // namespace trainer
