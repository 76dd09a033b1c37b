#pragma once

#include "engine/config/fields/experiment_fields.h"

namespace trainer {

/// data.mask_classes: a map from values of masks to classes.
ExperimentField mask_classes_field();

}  // namespace trainer
