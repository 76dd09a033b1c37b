#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/graph/graph.h"

namespace trainer {

/// A part of a forward pass that ranks share: from linear layers whose outputs are cut, through ops that compute each
/// of them by itself or by heads, to linear layers whose inputs are cut.
struct LayerRegion {
  std::vector<std::size_t> starts, inner, ends;  ///< nodes, ascending
  /// Of each value that is cut, along its last axis: the sections that are cut each by itself (AxisCut::sections).
  std::map<ValueId, std::vector<std::int64_t>> sections;
};

/// Where a model knows classes or words, and ranks share those.
struct ClassCut {
  std::vector<std::size_t> lookups;  ///< embeddings
  std::optional<std::size_t> head;   ///< the linear layer behind which is the loss
  std::int32_t parameter = -1;       ///< whose rows are cut
};

/// `can_cut_loss`: the loss is one that ranks can compute of parts of the classes.
std::vector<ClassCut> find_class_cuts(const Graph& forward, std::int64_t num_ranks, bool can_cut_loss);

/// The regions of a forward pass, first ones first; no linear layer is of two, or the head of a class cut. Throws
/// ConfigError, which points at the layer, where one could be cut but for a number that so many ranks do not divide.
std::vector<LayerRegion> find_layer_regions(const Graph& forward, std::int64_t num_ranks,
                                            const std::vector<ClassCut>& classes);

}  // namespace trainer
