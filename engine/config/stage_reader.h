#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/fields/frozen_entry.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

/// A stage as it was written, without the keys that only stages have.
struct StageNode {
  std::string name;
  Mark mark;
  StateCarry state = StateCarry::unless_frozen_otherwise;
  std::vector<std::string> cleared_groups;
  std::vector<Mark> cleared_marks;                           ///< of each cleared group
  std::optional<std::vector<FrozenEntry>> freeze, unfreeze;  ///< `unfreeze` without their '!'
  bool unfreezes_all = false;
  bool purge = true;
  Mark purge_mark;
  Node overrides;  ///< keys of the experiment

  bool freezes_otherwise() const { return freeze || unfreeze || unfreezes_all; }
};

/// The stages that train of a merged tree, whose `stages` then holds those that predict, if any. Reports what is wrong.
std::vector<StageNode> take_stages(Node& root, SourceSet& sources);
/// The stages that predict of a composed tree, whose `stages` is taken out. Reports what is wrong.
std::vector<PredictConfig> take_predictions(Node& root, SourceSet& sources);

}  // namespace trainer
