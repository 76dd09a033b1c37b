#pragma once

#include <optional>
#include <string_view>

#include "engine/config/experiment.h"

namespace trainer {

/// What data.delimiter says. ConfigError for what cannot separate fields.
char delimiter_of(const DataConfig& config);

/// A usual delimiter in `text` that is not the one its fields were separated by: what to write in data.delimiter.
std::optional<std::string_view> other_delimiter(std::string_view text, char delimiter);

}  // namespace trainer
