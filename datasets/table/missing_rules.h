#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "datasets/table/table_columns.h"
#include "engine/config/experiment.h"

namespace trainer {

/// Whether cells without a value can be treated so in a column of that kind.
bool suits(MissingRule rule, ColumnKind kind);

/// Of a feature of that kind: what data.columns says of it, else the first rule of data.missing that suits it, else
/// `error`. ConfigError where data.columns says what does not suit it.
MissingRule missing_rule(const DataConfig& config, const TableColumns& columns, std::size_t column, ColumnKind kind);

/// Of a target: `category` for classes where data.columns says so, `drop` where that or data.missing does, else
/// `error`. ConfigError where data.columns says another rule, or a kind that data.target_type contradicts.
MissingRule target_missing_rule(const DataConfig& config, const TableColumns& columns, std::size_t column);

/// What to write for a feature that lacks values, of which nothing is said; of a target without a kind.
std::string missing_hint(const TableColumns& columns, std::size_t column, std::optional<ColumnKind> kind);

}  // namespace trainer
