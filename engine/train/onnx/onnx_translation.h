#pragma once

#include "engine/graph/data_description.h"
#include "engine/graph/graph.h"
#include "engine/train/onnx/onnx_graph.h"

namespace trainer {

// Note [Graphs as ONNX]
// ~~~~~~~~~~~~~~~~~~~~~
// The forward pass of an evaluation graph, before any pass of the compiler has touched it, op by op in operators of
// ONNX's opset 17 that every runtime has. The batch may have any size; all other sizes are those of the experiment.
// Inputs are what the data delivers: pixels u8 (batch, H, W, C), normalised inside, numbers f32, tokens i64. The
// output, "logits", is what the loss reads, of images (batch, H, W, C) as the loss reads them.
//
// Here images lie with their channels last, in ONNX's operators with their channels first. So each value has a name for
// either order as it is asked for, made by a Transpose where it is not there, and ops that treat elements alone take
// the order that there is: between two convolutions nothing is turned.
//
// Maps along an axis that ONNX's Resize and pools round in ways of their own (bilinear, adaptive means) are products
// with a matrix of the weights that trainer uses, and nearest neighbours are a Gather by their numbers.

/// `graph` is of build_graph in GraphMode::evaluation, at any batch size; `data` what it was built for. Throws
/// ConfigError that points at a layer which has no such form.
OnnxGraph onnx_of(const Graph& graph, const DataDescription& data);

}  // namespace trainer
