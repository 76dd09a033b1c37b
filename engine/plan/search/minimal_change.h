#pragma once

#include <functional>

#include "engine/config/experiment.h"

namespace trainer {

// Note [Minimal changes]
// ~~~~~~~~~~~~~~~~~~~~~~
// Advice asks for nothing that is not needed. What a change sets falls into units: single settings, but for the batch
// size with the micro-batches that keep an update's samples, and the keys of an optimizer. A unit is dropped by setting
// it back to what it was, together with those that the configuration's rules refuse without it (gradients in 16 bit
// without train.amp). A change is minimal where it is not enough any more without any one of its units. Units are tried
// in this order: what changes the result most is given up first, then what takes time, and last what costs nothing.

/// `changed` without the units that it can do without, by Note [Minimal changes]. `is_enough(changed)` holds.
Experiment minimal_change(const Experiment& before, Experiment changed,
                          const std::function<bool(const Experiment&)>& is_enough);

}  // namespace trainer
