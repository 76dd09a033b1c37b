#pragma once

#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/field.h"

namespace trainer {

/// The keys of a column of data.columns.
const std::vector<Field<ColumnConfig>>& column_fields();

const EnumRule<MissingRule>& missing_choices();
const EnumRule<ColumnKind>& column_kinds();

/// data.columns: a map from columns to a kind or their keys.
ExperimentField columns_field();

}  // namespace trainer
