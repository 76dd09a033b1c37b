#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"

namespace trainer {

// Note [Least memory]
// ~~~~~~~~~~~~~~~~~~~
// A plan says exactly what a run reserves, but not that a larger value reserves more: segments are rounded, free blocks
// fit or do not, kernels change their scratch, and what is computed again is decided by sizes. What can be said of a
// whole range of values is a lower bound that is monotone, because it is made of nothing but sizes which are.
//
// It is the most of these that is live at a moment of the training graph before recomputation: persistent buffers; the
// batch; what a node reads and writes while it runs, but for outputs that may take over an input; and between its maker
// and its last direct reader, every value of the backward pass, and every value of the forward pass that is never
// computed again. Whatever recomputation adds to the graph only lengthens these lives. Kept values of the forward pass
// count only without checkpointing and offloading; scratch never does.
//
// With the batch each of these sizes grows, or stays, and which lives there are does not change but where a size
// decides it: chunks of the loss begin at a number of rows, and accumulation ends where an epoch is one batch. With the
// repeats of identical layers that keep their input's shape the lives of one more copy are added, and all others stay.
// With the width of a layer sizes grow; not so on devices that take gradients inside products: from a width on whole
// values are left out there.

/// See Note [Least memory]. Throws what compile throws.
std::int64_t least_memory(const Experiment& experiment, const DataDescription& data, const DeviceModel& device);

}  // namespace trainer
