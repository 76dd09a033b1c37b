#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/program/pipeline/message_order.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"
#include "engine/program/schedule.h"

namespace trainer {

// Note [Segments]
// ~~~~~~~~~~~~~~~
// A micro-batch's routine is cut where it sends and receives, and where the backward pass begins, and a step of a
// pipeline is a list of such segments, of several micro-batches in turn (Note [Messages in one order] in
// message_order.h). Each segment of a micro-batch reads and writes its own buffers and those that all share (weights,
// gradients, statistics), so it may stand anywhere behind those it depends on. As many micro-batches as are on their
// way at a time have buffers of their own, a slot, which the next one takes over; the first of a step starts the
// gradients. So a program has as many routines as slots, whatever the number of micro-batches, and plan, placement and
// executor take one list for each kind of step.

/// Of a micro-batch of so many samples: its stage's graph, after all passes, with as many nodes at its end as make
/// gradients of weights later.
struct StageNodes {
  Graph graph;
  std::size_t num_deferred = 0;
};

/// Makes Program::pipeline. `graph_of`: once for each size.
void add_pipeline_steps(Program& program, Scheduler& scheduler, const RunSchedule& schedule, const PipelineShape& shape,
                        const StageCut& cut, const std::vector<StageMessage>& messages, bool starts,
                        const std::function<StageNodes(std::int64_t)>& graph_of);

/// "wte to h.5, h.12 to h.17": the layers of the model that this rank's stage has; empty: there is one stage.
std::string layers_of_stage(const Program& program);

/// The steps of a run, of as many micro-batches and with such a last one.
const PipelineSteps::Step& pipeline_step(const Program& program, const RunSchedule::Step& step);

}  // namespace trainer
