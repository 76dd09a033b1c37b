#pragma once

#include "engine/device/device.h"
#include "engine/graph/graph.h"

namespace trainer {

// Note [Given sums]
// ~~~~~~~~~~~~~~~~~
// A batch norm in training reads x twice: for its moments, and to normalise it. Where a convolution made x, a library
// may add up x and x² of each channel while it still has them at hand:
//
//   conv2d                        conv2d with statistics: writes x and two sums a channel
//   batchnorm2d              →    batchnorm2d with given sums: reads x once
//
// The sums are of f32, so a variance that is small against mean² has too few digits in them. A device takes those of a
// channel where they are as good as moments of x, and finds the others in x as ever (batchnorm2d_forward in
// cuda/kernels/batchnorm2d.h says where that is); one may leave all of them alone. x stays what it was for everybody
// else: the gradient, a second reader, a batch norm that is run again from its mean and deviation.
//
// With statistics another engine may compute the convolution, whose x may differ in the last bit. So it is decided here
// for every convolution once, before what is computed again is chosen, by the device and the op alone; a convolution
// that is computed again runs as it did, so that it makes the same bits, and its sums are dropped.

/// Gives batch norms the sums of the convolution that made their input, where that has neither bias nor ReLU and the
/// device has statistics for it. Runs behind fuse_sums_into_batchnorms() and before apply_recompute().
void take_statistics_from_convolutions(Graph& graph, const DeviceModel& device);

}  // namespace trainer
