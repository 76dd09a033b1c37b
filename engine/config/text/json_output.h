#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainer {

/// The value on one line, or indented by so many columns. A terminal shows it and does not obey: the control characters
/// that JSON lets through, U+007F to U+009F, are written as escapes, and bytes that are not UTF-8 as U+FFFD.
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace trainer
