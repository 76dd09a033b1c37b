#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/yaml/references.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

/// A named value that a block or a model's file takes: an integer, true or false, a word, or any other text.
struct ModelParameter {
  std::string name;
  Mark mark;
  Node initial;                     ///< its value where none is given; null: it must be given
  std::vector<std::string> one_of;  ///< the values it may have; empty: any
  bool is_described = false;        ///< by a map, whose `default` is the value

  bool is_required() const { return initial.kind == NodeKind::null; }
};

/// Layers that are used like one: `model.blocks.NAME: {parameters: {width: , stride: 1}, layers: […]}`.
struct ModelBlock {
  std::string name;
  Mark mark;
  std::vector<ModelParameter> parameters;
  const Node* layers = nullptr;  ///< a list of the tree it was read from

  std::vector<std::string> parameter_names() const;
  /// "bottleneck: {width: 64}", with what it cannot do without.
  std::string example() const;
};

/// Letters, digits and '_', not a digit first: what `${…}` takes for one name.
bool is_parameter_name(std::string_view name);

/// Reads `parameters:` of `owner` ("block 'bottleneck'"). Reports what is none, what is given twice and values that are
/// none.
std::vector<ModelParameter> read_parameters(const Node& node, const std::string& owner, SourceSet& sources);

/// Reads `blocks:`, by name. Reports names that layers have, keys that a block has not, and blocks that use themselves,
/// with the way round.
std::map<std::string, ModelBlock> read_blocks(const Node& node, SourceSet& sources);

}  // namespace trainer
