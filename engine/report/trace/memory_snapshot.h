#pragma once

#include <string>

#include "engine/findings/traced_plan.h"
#include "engine/report/trace/byte_sink.h"

namespace trainer {

// Note [Memory snapshots]
// ~~~~~~~~~~~~~~~~~~~~~~~
// What torch.cuda.memory._snapshot() returns (documented there, in torch/cuda/memory.py), pickled: PyTorch's memory_viz
// page and torch/cuda/_memory_viz.py open it. It tells one step of a plan: what is held as it begins, as allocations at
// its beginning, then what the step does, and as `segments` what is held at its end. Of a plan that does not fit it is
// the step in which memory runs out, up to an entry `oom`, as PyTorch's snapshot of such a moment would be.
//
// PyTorch's entries tell the bytes that were asked for. Here `size` is the block, so that the page's curve reaches what
// plan and run call allocated, and `requested_size` stands beside it. Stacks are trainer's names, the innermost first:
// buffer, op, layer, where the layer's block is used, phase; file and line are the configuration's. Every allocation
// has a `category`, and the entry at the end one called unknown, without which the page fails. All of it is one stream
// of device 0. `trainer` beside the rest tells what was planned.

/// Writes what is told of the plan.
void write_memory_snapshot(const TracedPlan& plan, const std::string& trainer_version, const ByteSink& sink);

/// The trace that a snapshot of it tells.
const MemoryTrace& snapshot_trace(const TracedPlan& plan);

}  // namespace trainer
