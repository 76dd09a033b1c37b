#pragma once

#include "engine/graph/graph.h"

namespace trainer {

// Note [ReLU into pooling]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// The gradient of a convolution with ReLU reads the convolution's output as a mask: the largest tensor of the block,
// kept for one bit of each number. Max-pooling takes over the ReLU behind which it stands:
//
//   conv2d, relu            y: N·H·W·C floats, kept                conv2d               nothing kept
//   maxpool2d               a byte an output, kept            →    maxpool2d (relu)     a byte an output, kept
//
// ReLU does not decrease, so the largest of a window after it is the largest before it after it. Where that is above 0
// it is the same element, the first of equals, that is taken. Where it is not, the gradient came to nothing before: it
// went to the first element of the window, whose ReLU stopped it. Now the byte says that no element was taken. So
// losses and gradients have the same bits, also where windows overlap: an element above 0 is only taken by windows
// whose largest is above 0, so the sum over its windows has the same terms in the same order, and for any other element
// it is 0 in either case. NaN is larger than all in pooling and passes ReLU, and its gradient is stopped, before and
// after. One thing may differ: in a window of numbers of which none is above 0 and the largest is −0, a 0 may become
// −0, which no later sum, product or comparison makes anything but a 0 of.

/// Moves ReLU that only a max-pooling of at most 255 elements reads into the pooling. Runs on the forward graph.
void fuse_relu_into_pooling(Graph& graph, bool enabled = true);

/// Lets linear, conv2d, batchnorm2d, groupnorm, add and maxpool2d apply the ReLU that follows them, and batchnorm2d
/// ReLU6, where nothing else reads their result: one pass over the activation and one buffer less. Runs on the forward
/// graph, after fuse_relu_into_pooling() and before differentiate().
void fuse_relu(Graph& graph);

}  // namespace trainer
