#pragma once

#include <string>

#include "engine/config/experiment.h"
#include "engine/program/program.h"
#include "engine/report/text/style.h"

namespace trainer {

/// What `trainer summary` prints: one line a layer with its output shape, parameters (or whose it uses), forward FLOPs
/// of a batch, bytes of its parameters, and bytes of the activations that training holds for it; totals below. A layer
/// that works in place, or whose output is a view, holds no activation bytes of its own. Where layers are frozen, which
/// of them are; where the experiment, which the program was compiled from, has layer groups, a table of these.
std::string summary_table(const Program& program, const Experiment& experiment, const Style& style);

/// The same as one JSON object without a newline.
std::string summary_json(const Program& program, const Experiment& experiment);

/// Bytes of activation buffers that a training pass of whole batches allocates for each layer.
std::vector<std::int64_t> activation_bytes_by_layer(const Program& program);

}  // namespace trainer
