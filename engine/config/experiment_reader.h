#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "engine/config/experiment.h"
#include "engine/config/source_set.h"

namespace trainer {

/// Which keys a configuration gave, and which of them could not be read.
struct GivenKeys {
  Mark root;
  std::map<std::string, Mark, std::less<>> marks;  ///< dotted keys and sections: where the key stands
  std::set<std::string, std::less<>> broken;
  bool names_warmup = false;  ///< schedule.type was "warmup", which reads as constant

  bool has(std::string_view key) const { return marks.contains(key); }
  /// Where the key stands; where it was not given, its section, and else the whole.
  Mark mark(std::string_view key) const;
};

/// Fills an experiment from a composed tree by the field tables. Reports every key that is unknown, misplaced, of the
/// wrong type, out of range or not for the chosen type.
GivenKeys read_experiment(const Node& root, Experiment& experiment, SourceSet& sources);

}  // namespace trainer
