#pragma once

#include <string_view>
#include <vector>

namespace trainer {

/// A commented configuration to start from: what `trainer init NAME` writes.
struct ConfigTemplate {
  std::string_view name;  ///< "mlp"
  std::string_view help;  ///< one line
  std::string_view text;  ///< YAML that loads as it is: engine/config/templates/<name>.yaml
};

std::vector<ConfigTemplate> config_templates();

/// Throws ConfigError that lists the names, and the nearest, where there is none of that name.
ConfigTemplate config_template(std::string_view name);

}  // namespace trainer
