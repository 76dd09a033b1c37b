#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/program/precision.h"
#include "engine/program/program.h"

namespace trainer {

// Note [Evaluation alone]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Weights that are there already are evaluated by a program that has what `compile` makes for evaluations, op for op,
// and nothing that training needs: no gradients, no state of the optimizer, no loss scale, and of parameters that
// products read under mixed precision the 16-bit ones alone, which a file's numbers are rounded to as a copy is rounded
// from its master. So what it finds is what a run finds of the same weights, to the bit. The logits of a batch outlive
// its routine (Program::kept_predictions), where the loss reads them whole, so that the host can look at single
// samples.

/// The model and its loss over a batch, behind all passes, as `compile` evaluates it; `precision` is of train.amp.
Graph make_evaluation_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size,
                            const DeviceModel& device, const PrecisionOptions& precision);

/// Of the experiment's validation data, in the batches of a run. `keeps_prediction`: where the loss reads it whole.
/// Throws ConfigError for shapes that do not fit together, or where there is no validation data.
Program compile_evaluation(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                           bool keeps_prediction);

/// Whether the last layer and its loss are computed in parts (memory.chunked_loss), so that logits are never whole.
bool has_logits_in_parts(const Program& program);

}  // namespace trainer
