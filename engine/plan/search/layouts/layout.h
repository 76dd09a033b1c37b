#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// How ranks share a model: values of keys of `parallel` (Note [Layouts of ranks] in engine/rank_layout.h).
struct Layout {
  std::int64_t data = 1, pipeline = 1, tensor = 1;
  PipelineOrder schedule = PipelineOrder::one_forward_one_backward;
  std::int64_t micro_batches = 1;
  Shard shard = Shard::none;

  std::int64_t num_ranks() const { return data * pipeline * tensor; }
  /// Whether the same ranks share the same things.
  bool shares_as(const Layout& other) const {
    return data == other.data && pipeline == other.pipeline && tensor == other.tensor;
  }
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// That of an experiment; where there is nothing to shard, or no pipeline, the keys for these count as not given.
Layout layout_of(const ParallelConfig& parallel);

/// The experiment with that layout, as rank 0 has it.
Experiment with_layout(Experiment experiment, const Layout& layout);

/// Overrides that give an experiment the layout where its own is another: "parallel.pipeline=4".
std::vector<std::string> layout_overrides(const ParallelConfig& own, const Layout& layout);

/// What layouts are looked for among.
struct LayoutSpace {
  std::int64_t num_ranks = 1;    ///< all of which take part
  std::int64_t most_tensor = 1;  ///< ranks that share layers, at most: those of a machine
};

/// Every one of num_ranks = data · pipeline · tensor ranks of which each has a sample in every micro-batch: without a
/// pipeline with 1, 2, 4 and 8 micro-batches; with one in each order of them with 1, 2, 4 and 8 times as many as there
/// are stages, and of fewer samples with a micro-batch for each; and, where ranks share a batch, with each kind of
/// shard. Whether they can be is not looked at.
std::vector<Layout> all_layouts(const Experiment& experiment, const DataDescription& data, const LayoutSpace& space);

}  // namespace trainer
