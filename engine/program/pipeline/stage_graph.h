#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/pipeline/stage_cut.h"
#include "engine/rank_layout.h"

namespace trainer {

// Note [Pipelines]
// ~~~~~~~~~~~~~~~~
// With parallel.pipeline ranks share the list of layers: each has the nodes of its stage, of one chunk of the list or,
// interleaved, of several. The forward pass of the whole model is built on every rank, and cut: what a layer of another
// chunk makes is received in front of the chunk that reads it, and sent behind the one that makes it, once to each
// chunk of another rank that reads it, however far away. These are ops of the graph, so what follows knows no more of
// pipelines: the backward pass returns gradients (Note [Sends and receives] in engine/ops/send_receive.h), the other
// passes see one stage, and so do plan and placement.
//
// A step then takes its micro-batches in an order of its own (Note [Orders of a pipeline] in schedules.h). A graph is
// scheduled as always, once for each micro-batch that may be on its way at a time, and cut into segments where it sends
// and receives (Note [Segments] in pipeline_steps.h).
//
// Every rank knows all parameters and holds those of its layers: what another holds is a part of no bytes (TensorPart).
// Parameters that layers of several stages read, as tied embeddings, are held by each, and their gradients added up.

/// What goes from one chunk to another in a micro-batch, and its gradient back.
struct StageMessage {
  ValueId value = -1;
  std::int32_t from = 0, to = 0;  ///< chunks, of different stages
  bool returns_gradient = false;
};

/// By destination, then by where they are from: the same on every rank.
std::vector<StageMessage> stage_messages(const Graph& forward, const StageCut& cut, std::int32_t num_stages);

/// Leaves the nodes of this rank's stage in a forward pass, with what they send and receive.
void keep_stage(Graph& forward, const StageCut& cut, const std::vector<StageMessage>& messages,
                const RankLayout& ranks);

}  // namespace trainer
