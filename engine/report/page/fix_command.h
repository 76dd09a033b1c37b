#pragma once

#include <string>
#include <vector>

namespace trainer {

/// A change of a configuration, and what it is to be planned for.
struct FixToPlan {
  std::string path;                      ///< of the configuration; empty: there is none
  std::vector<std::string> overrides{};  ///< that the configuration was loaded with
  std::vector<std::string> set;          ///< what the change sets
  std::string gpu{}, capacity{};         ///< as --gpu and --capacity take them; empty: not given
};

/// What plans it, to paste; empty where there is no configuration.
std::string fix_command(const FixToPlan& fix);

}  // namespace trainer
