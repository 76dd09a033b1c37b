#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/graph.h"

namespace trainer {

// Note [Cut into stages]
// ~~~~~~~~~~~~~~~~~~~~~~
// The list of layers is cut where parallel.cut says; else so that the chunk which takes longest takes as little as it
// can, by the rough times of its ops (engine/program/op_time.h), and of all such cuts where the fewest bytes cross.
// Embeddings, heads and losses count as what they compute. All ranks, batch sizes and modes have one cut: that of the
// largest micro-batch in training. A chunk that holds more than there is may be refused: the search of
// engine/plan/search/fitting_cut.h then asks for the best of the other cuts.

/// Which part of the list of layers each layer is of.
struct StageCut {
  std::vector<LayerId> begins;  ///< of chunks behind the first, ascending

  std::int32_t num_chunks() const { return static_cast<std::int32_t>(begins.size()) + 1; }
  std::int32_t chunk_of(LayerId layer) const;
  /// Of the model's layers the first and the last of each chunk that a stage has.
  std::vector<std::pair<LayerId, LayerId>> layers_of(const Graph& forward, std::int32_t stage,
                                                     std::int32_t num_stages) const;
};

/// A run of nodes of one layer, between which the list may be cut.
struct LayerRun {
  LayerId layer = no_layer;
  double time = 0;            ///< of its forward pass
  double crossing_bytes = 0;  ///< of what those in front of it make and it, or one behind it, reads
};

std::vector<LayerRun> layer_runs(const Graph& forward);
/// Those at which parallel.cut can say that a chunk begins; the others count to the one in front of them.
std::vector<LayerRun> layer_runs_with_names(const Graph& forward);

/// Runs from `begin` up to `end` are too many for this chunk, and so are more than these.
struct RefusedChunk {
  std::size_t chunk = 0, begin = 0, end = 0;
};

/// The runs at which the chunks behind the first begin, cut by time; nothing where every cut has a refused chunk.
std::optional<std::vector<std::size_t>> cut_by_time(std::span<const LayerRun> runs, std::size_t num_chunks,
                                                    std::span<const RefusedChunk> refused = {});

/// Of a forward pass. Throws ConfigError where there are fewer layers than parts, or parallel.cut names none, or one
/// that is not behind the one before it.
StageCut cut_into_stages(const Graph& forward, const ParallelConfig& parallel);

/// By parameter, the stages whose layers read it, ascending; stage 0 has what none reads.
std::vector<std::vector<std::int32_t>> stages_of_parameters(const Graph& forward, const StageCut& cut,
                                                            std::int32_t num_stages);

}  // namespace trainer
