#include "engine/graph/preprocessing.h"

#include <fmt/format.h>

namespace trainer {

std::string target_unit(const Preprocessing& preprocessing) {
  if (preprocessing.target_std.empty()) return "";
  if (preprocessing.target_std.size() > 1) return "standard deviations of each target";
  return fmt::format("standard deviations of {} ({:.4g})", preprocessing.targets.front(),
                     preprocessing.target_std.front());
}

}  // namespace trainer
