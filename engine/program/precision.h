#pragma once

#include "engine/graph/graph.h"

namespace trainer {

// Note [Mixed precision]
// ~~~~~~~~~~~~~~~~~~~~~~
// Products and convolutions take and give 16-bit numbers, because that is where the time goes, and what follows them
// stays in 16 bit until an op wants f32 (sums of residual branches too, where PyTorch's autocast would widen them): so
// activations, which are most of the memory, take half of it. Arithmetic
// inside every op is f32; norms keep their statistics, and losses and updates all of their operands, in f32. An op's
// Precision (engine/ops/op_definition.h) says which of its operands change.
//
// Weights that products read have a 16-bit copy beside the f32 master, which `load` and each update write anew, so that
// no step casts them; without masters the 16-bit weights are all there is. A gradient arrives in 16 bit and is
// widened at once, unless gradients are kept in 16 bit. An embedding, whose output is in 16 bit too, has the same bits
// from the master as from a copy, so that it reads the one that is there; its gradient is summed in f32 and needs no
// widening. In fp16 the loss is scaled: Note [Loss scale].

struct PrecisionOptions {
  DType type = DType::bf16;    ///< f16 or bf16
  bool master_weights = true;  ///< f32 parameters beside the 16-bit copies
  bool f32_gradients = true;   ///< of parameters
  bool scales_loss = false;
};

/// Those of train.amp, which is not off.
PrecisionOptions precision_options(const Experiment& experiment);

/// Rewrites a forward graph, before differentiate(): types of operands, casts where f32 and 16 bit meet (one for each
/// value, however many read it), copies of weights.
void apply_precision(Graph& graph, const PrecisionOptions& options);

}  // namespace trainer
