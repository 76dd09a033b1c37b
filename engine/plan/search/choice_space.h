#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/plan/search/choices.h"

namespace trainer {

/// The experiment with the number that train.batch_size: auto stands for; others as they are.
Experiment with_settled_batch(const Planner& planner, const Experiment& experiment, const DataDescription& data,
                              std::int64_t capacity);
/// Puts the number into `set`, unless it is there or `experiment` does not ask for `auto`.
void add_settled_batch(const Experiment& experiment, const Experiment& changed, std::vector<std::string>& set);

/// An update's samples as micro-batches.
struct BatchSplit {
  std::int64_t batch_size = 0, accumulation_steps = 1;
};

/// Every way to cut the updates of `experiment` so that each sees the samples it saw before; the largest micro-batch
/// first. An epoch of one update may be cut unevenly; of its cuts into very many parts some are left out.
std::vector<BatchSplit> batch_splits(const Experiment& experiment, const DataDescription& data);
Experiment with_split(const Experiment& experiment, const BatchSplit& split);

/// In what a run computes: precision, and what gradients, weights and moments are stored in. The experiment's own
/// first, then by how much they change. `half` is the 16-bit type that the device computes with.
std::vector<Experiment> arithmetic_variants(const Experiment& experiment, Amp half);

/// In what is computed again: the experiment's own first, then from nothing to as much as must be.
std::vector<Experiment> recompute_levels(const Experiment& experiment);

/// In what ranks hold of the model, and exchange beside what they compute: each with one setting of that changed. None
/// where there is one rank.
std::vector<Experiment> exchange_variants(const Experiment& experiment);

/// What holds less memory and takes no time by the cost model: placement, updates within the backward pass, smaller
/// batches to evaluate, fewer logits at a time, less scratch; between ranks, a model that they share.
using Saver = void (*)(Experiment& experiment);
/// Those that change `experiment`; the ones that are best given up first come last. Each leaves the others possible.
std::vector<Saver> savers_for(const Experiment& experiment, const DataDescription& data);
/// As savers_for, with segments that grow in place instead of places for every buffer.
std::vector<Saver> expandable_savers_for(const Experiment& experiment, const DataDescription& data);

}  // namespace trainer
