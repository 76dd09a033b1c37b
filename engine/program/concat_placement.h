#pragma once

#include "engine/graph/graph.h"

namespace trainer {

// Note [Concatenation in place]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A concatenation copies its parts into one tensor. A part that nothing else reads can be written there at once, by an
// op that can be placed (Note [Placed outputs] in engine/ops/placed.h); only the others are copied:
//
//   batchnorm2d (relu)   → a                      batchnorm2d (relu)   → y[…, a]
//   conv_transpose2d     → b                →     conv_transpose2d     → b
//   concat (a, b)        → y                      place_channels (b)   → y[…, b]
//
// Where the copy is made a and y are held side by side no more, and a is written once and not read. But y is there from
// its first part on, which may be long before its last one: a U-Net's first skip waits for all of the inner levels. So
// the parts that are placed are those behind the earliest one from which on no moment holds more than the copying
// version holds at its worst up to and with the copy, by the sizes of what is alive. The same holds for a concatenation
// that the backward pass makes again, where a skip is often read by nothing else.
//
// What the backward pass computes again for a concatenation may be read once more further on: a U-Net's skip by the
// max-pooling behind it, when all of the inner levels are through. Where it is one that can be placed, is made of what
// is there until then anyhow, and reads no more than the copy would, it is run a second time for the later readers
// instead of being copied and held for them:
//
//   batchnorm2d (relu), again    → a                      batchnorm2d (relu), again    → y[…, a]
//   concat (a, b), again         → y                      place_channels (b), again    → y[…, b]
//   …                                              →      …
//                                                         batchnorm2d (relu), again    → a
//   maxpool2d (a), again                                  maxpool2d (a), again
//
// No more bytes are moved so, and a is not held in between. A U-Net of 64 channels with 8 images of 256×256 takes
// 1,727 MiB instead of 1,850 (configs/memory/unet.yaml on the CPU), and a step copies 1,200 MiB into or out of
// concatenations instead of 1,440. What a transposed convolution makes is copied still: it has to be kept by itself,
// since keeping the whole would take twice as much. So are the gradients of the parts, and the skip on its way forward,
// which max-pooling reads as a tensor of its own.
//
// The numbers written are the same. What a part's layer computes is then stored in a buffer that bears the
// concatenation's name.

/// Places parts of concatenations. Runs on the nodes as they will run: after apply_recompute() and fuse_residuals().
void place_concatenated(Graph& graph, bool in_place);

}  // namespace trainer
