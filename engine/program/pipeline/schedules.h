#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

// Note [Orders of a pipeline]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A pipeline of S stages cuts the list of layers into S chunks, or, interleaved, into S · V, of which stage s has
// s, s + S, …. A micro-batch goes forward through all chunks and back. What a stage does in which order is decided
// before anything runs, and so is when its steps would begin if each took one unit of time (a backward two where it is
// not split): from these times follows one order of all messages, which every stage keeps (Note [Messages in one
// order]).
//
//   gpipe         forward of all micro-batches, then backward (Huang et al., 2019)
//   1f1b          stage s begins with S − s forwards; then a backward and a forward in turn (PipeDream-Flush: Narayanan
//                 et al., 2021), so it holds the activations of at most S − s micro-batches
//   interleaved   the same over V chunks each, in groups of S micro-batches (Megatron-LM: Narayanan et al., "Efficient
//                 large-scale language model training", 2021)
//   zero_bubble   1f1b whose backward is split (Qi et al., "Zero bubble pipeline parallelism", ZB-H1, 2023): gradients
//   of
//                 weights of a micro-batch are computed when stage s has done the backward of s further ones, or waits
//
// Each chunk takes micro-batches in their order, forward and backward, so that gradients are added up as one process
// adds them up.

/// What a stage does at a time.
struct PipelineItem {
  enum class Kind : std::uint8_t {
    forward,
    backward,          ///< of what is received, and where it is not split of weights
    weight_gradients,  ///< where it is split
  } kind = Kind::forward;
  std::int32_t chunk = 0;        ///< of all
  std::int32_t micro_batch = 0;  ///< of the step
  double begin = 0, end = 0;     ///< in units, where each waits for what it needs
  friend bool operator==(const PipelineItem&, const PipelineItem&) = default;
};

/// A pipeline and what a step of it is.
struct PipelineShape {
  std::int32_t num_stages = 1;
  std::int32_t num_chunks = 1;  ///< of all stages together
  std::int32_t num_micro_batches = 1;
  PipelineOrder order = PipelineOrder::one_forward_one_backward;

  std::int32_t stage_of(std::int32_t chunk) const { return chunk % num_stages; }
  bool splits_backward() const { return order == PipelineOrder::zero_bubble; }
};

/// By stage, in the order in which it does them. `reads`: by chunk, those whose outputs its forward reads. Gradients go
/// back the same ways.
std::vector<std::vector<PipelineItem>> pipeline_items(const PipelineShape& shape,
                                                      const std::vector<std::vector<std::int32_t>>& reads);

/// The seconds, or other units, that an item takes.
struct ItemTimes {
  std::vector<double> forward, backward, weight_gradients;  ///< by chunk
  /// Of a step's first micro-batch, where it takes another time, as it starts the gradients; empty: it does not.
  std::vector<double> first_backward{}, first_weight_gradients{};
  double of(const PipelineItem& item) const;
};

/// Sets begin and end of items where each begins as soon as the one before it on its stage, and what it reads, are
/// done; `message`: what passing something on to another stage takes. False where they would wait for each other.
bool time_items(const PipelineShape& shape, const std::vector<std::vector<std::int32_t>>& reads, const ItemTimes& times,
                double message, std::vector<std::vector<PipelineItem>>& items);

}  // namespace trainer
