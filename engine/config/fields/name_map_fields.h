#pragma once

#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/field.h"

namespace trainer {

/// The keys of a map of model.maps.
const std::vector<Field<NameMap>>& name_map_fields();

/// model.maps: how tensors are called in files of others, by name.
ExperimentField maps_field();

}  // namespace trainer
