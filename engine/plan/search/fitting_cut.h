#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/plan/search/planner.h"

namespace trainer {

// Note [Cuts that fit]
// ~~~~~~~~~~~~~~~~~~~~
// A pipeline is cut by time (Note [Cut into stages] in engine/program/pipeline/stage_cut.h), which knows no bytes: the
// first stages hold activations of more micro-batches, embeddings weigh much and take no time. Where a stage of that
// cut does not fit, the best of the other cuts is taken and each of its stages planned; for each that does not fit
// either it is found, by halving, how many of its layers would: from its first one on, and up to its last one. So many
// and more are refused from then on, also to a stage that begins earlier or ends later, and the best of the cuts that
// are left is next. Each is no faster than the one before, so the first whose stages all fit is the one sought. What is
// refused once all cuts are covered by refusals is all of them: where each stage of one cut is too large, there is
// none.
//
// It is assumed that a stage of more layers does not hold less. Segments of the caching allocator, what crosses where
// it begins, and what skips send through other stages may differ from that by a little; then a cut that is found fits
// all the same, and another may be faster. So of short lists, of which all stages can be planned, all cuts are looked
// at in the order of their times; and of longer ones where none is found otherwise, if there are some thousand cuts at
// most.
//
// Times are those that a cut goes by anyway, not a machine's: plans, every rank of a run and one that is resumed find
// the same cut of the same capacity.

/// Names for parallel.cut: of the cuts whose every stage fits `capacity` by its plan the one whose slowest stage takes
/// least, whatever the experiment's own is. Nothing where none was found, where stages have several chunks each
/// (`interleaved`), and where there is no pipeline.
std::optional<std::vector<std::string>> find_fitting_cut(Planner& planner, const Experiment& experiment,
                                                         const DataDescription& data, std::int64_t capacity);

/// The experiment with names for what parallel.cut: auto stands for, where the cut by time does not fit and another
/// does; others as they are. What compiles an experiment asks for it first: settle_experiment has one rank's stage.
Experiment with_settled_cut(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                            std::int64_t capacity);

/// That with_settled_cut made one experiment of another, as a sentence without its full stop; empty: it did not.
std::string settled_cut_text(const Experiment& asked, const Experiment& settled);

}  // namespace trainer
