#pragma once

#include <span>
#include <string_view>

namespace trainer {

/// A commented configuration to start from: what `trainer init NAME` writes.
struct ConfigTemplate {
  std::string_view name;  ///< "mlp"
  std::string_view help;  ///< one line
  std::string_view text;  ///< YAML that loads as it is
};

std::span<const ConfigTemplate> config_templates();

/// Throws ConfigError that lists the names, and the nearest, where there is none of that name.
const ConfigTemplate& config_template(std::string_view name);

}  // namespace trainer
