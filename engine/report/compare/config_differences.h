#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/report/memory/memory_json.h"

namespace trainer {

/// A key whose value is not the same in all of several resolved configurations.
struct ConfigDifference {
  std::string key;                          ///< dotted, items of lists by their number: "model.layers.1.linear.out"
  std::vector<std::optional<Json>> values;  ///< one for each configuration; nothing where it has no such key
  std::vector<std::string> texts;           ///< the same as people read them, of any length; "-" where there is none
  /// Of the run, of its folder, or of where else it is told (logging), which change nothing of what it trains.
  bool is_name = false;

  /// "lr" of "optimizer.lr"; of an item of a list with what it is in: "linear.out".
  std::string last_part() const;
};

/// Where configurations differ, in the order of their keys. Lists of one length are compared item by item, others as a
/// whole, whose text says how many items there are and which is the first that is another. A null has no
/// configuration: it has no values and makes no difference.
std::vector<ConfigDifference> config_differences(const std::vector<const Json*>& configs);

}  // namespace trainer
