#pragma once

#include <span>

#include "engine/program/program.h"
#include "engine/program/run_schedule.h"
#include "engine/program/schedule.h"

namespace trainer {

// Note [Ranks]
// ~~~~~~~~~~~~
// Ranks are processes that train one model, each on its part of every batch (Note [Parts of a batch] in
// engine/batch_part.h). What a rank computes is a program like any other, compiled for the sizes of its own parts; what
// they tell each other are ops of it (Note [Sums over ranks] in engine/ops/all_reduce.h): before an update the sums of
// all gradients and of the loss's statistics, behind an evaluation those of its statistics and counts. Where a step has
// one micro-batch, gradients are added up while its backward pass goes on, a bucket of parameters at a time, last ones
// first, as soon as all of it are there (Note [Started exchanges] in engine/ops/finish_exchange.h); nothing of the pass
// is left beside the last bucket, which the update adds up. Since the
// gradient of each sample is scaled by the whole step's samples, sums over ranks are what one process computes. All
// that is decided by numbers (clipping, the loss scale, a loss that is not finite, early stopping, the best checkpoint)
// is decided behind such a sum, so by all ranks alike. A rank without a sample in a micro-batch adds nothing, and one
// without any in a step adds zeros.
//
// Every rank runs the same sums in the same order: buckets, and their order, follow the parameters alone. Within a
// micro-batch stand those of a shared model (Note [Sharded models] in sharding.h) and of batch norms over all ranks
// (Note [Batch norm over ranks] in engine/ops/batchnorm2d_over_ranks.h), in the order of rank 0's nodes on every rank.

/// Gradients that are added up at a time, at most: parallel.bucket_size, or what stands for 0.
std::int64_t bucket_bytes(const ParallelConfig& parallel);
/// Where a run's gradients are added up.
Scheduler::GradientSums gradient_sums(const Experiment& experiment, const RunSchedule& schedule);
/// Sums of gradients over ranks; nothing where there is one.
void append_gradient_sums(Program& program, Scheduler& scheduler, Routine& routine,
                          std::span<const BufferId> gradients);
/// Program::agree_evaluation and Program::share_statistics.
Routine schedule_agreement(Program& program, Scheduler& scheduler);
Routine schedule_shared_statistics(Program& program, Scheduler& scheduler);
/// What a rank without a sample in a step of a pipeline does instead of it. The scheduler knows the gradients' buffers.
Routine schedule_step_without_samples(Program& program, Scheduler& scheduler);
/// The routines of a micro-batch of which this rank has no sample. The scheduler knows the gradients' buffers.
Program::MicroBatch schedule_empty_micro_batch(Program& program, Scheduler& scheduler, const RunSchedule& schedule);

}  // namespace trainer
