#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/graph.h"

namespace trainer {

// Note [Frozen parameters]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// `freeze` is a list of entries: a layer's path or kind, a pattern of those, "group:NAME" or "to:NAME", each with '!'
// in front where it trains what it means. The last entry that means a layer decides; what none means is trained.
// "to:NAME" freezes all groups in front of one, and trains that and those behind it (fastai's freeze_to); NAME may be a
// number from 0, or from −1 for the last. "!to:NAME" only trains.
//
// A frozen parameter is not trainable (Parameter::trainable), so autodiff makes no gradient of it, nothing is kept for
// one, and no gradient flows to what lies in front of the first layer that is trained. It has no state of the
// optimizer. It is saved and loaded like others.
//
// A layer that shares parameters has those of their owner, which alone is asked.

/// Which layers an experiment trains, and the group that each is of.
class TrainedLayers {
 public:
  /// The experiment must outlive it.
  explicit TrainedLayers(const Experiment& experiment);

  /// Whether the parameters of a layer are trained.
  bool trains(std::string_view path, std::string_view kind) const;
  /// Whether a batch norm goes by its running statistics in training, and leaves them.
  bool keeps_statistics(std::string_view path, std::string_view kind) const;
  /// Position in model.groups; 0 where there are none. −1: no group names it.
  std::int32_t group_of(std::string_view path, std::string_view kind) const;

  /// Once all of the model's layers are known. Throws ConfigError for an entry or a group that means no layer with
  /// parameters, a parameter of no group, and one of several.
  void check(const Graph& graph) const;

 private:
  struct Entry {
    bool freezes = true;
    SourceLocation location;
    std::string pattern;              ///< empty: groups
    std::vector<std::int8_t> groups;  ///< by group: 1 freezes, 0 trains, −1 leaves it
  };

  bool is_frozen(std::string_view path, std::string_view kind) const;
  std::int32_t group_named(std::string_view name, const SourceLocation& location) const;
  Entry read(std::string_view text, const SourceLocation& location) const;
  bool means(const Entry& entry, std::string_view path, std::string_view kind) const;

  const Experiment& experiment_;
  std::vector<Entry> entries_;
};

/// The learning rate or weight decay of each layer group (one where there are none), as `numbers` says: of a slice of
/// both ends each is the same multiple of the one before (fastai's even_mults), of one end the others are a tenth of
/// the last. Throws ConfigError where groups are named that are not there, or not all.
std::vector<double> numbers_of_groups(const GroupNumbers& numbers, const std::vector<LayerGroup>& groups,
                                      std::string_view key);

}  // namespace trainer
