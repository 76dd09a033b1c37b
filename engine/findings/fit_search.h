#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/findings/find_fit.h"
#include "engine/findings/plan_target.h"
#include "engine/plan/search/choices.h"
#include "engine/plan/search/planner.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// What `trainer fit` is asked for with one number of ranks, and what plans for it: how much a rank has depends on how
/// many there are.
struct FitSearch {
  const Experiment loaded;
  const DataDescription data;
  const PlanTarget target;
  const Experiment experiment;
  Planner planner;

  /// `other`: one of the same request, whose data is not looked at again where it is the same.
  FitSearch(const FitRequest& request, const std::vector<std::string>& overrides, const DeviceSource& devices,
            const FitSearch* other = nullptr);

  std::int64_t num_ranks() const { return total_ranks(experiment.parallel); }
  std::int64_t capacity() const { return target.capacity.num_bytes; }
  bool knows_links() const;
};

/// The experiment, or its stage that is asked about.
Experiment load_asked(const FitRequest& request, const std::vector<std::string>& overrides);
/// Whether the data is not the same, be it by keys that are computed from others.
bool has_other_data(const Experiment& a, const Experiment& b);

/// What is asked about, before anything is found.
FitFindings begin_findings(const FitRequest& request, const FitSearch& search);
/// What of the experiment as it is is told: its batch, then all of it.
void note_batch(const RunSchedule& schedule, FitFindings& findings);
void note_as_is(const FitSearch& search, const Verdict& as_is, FitFindings& findings);
/// Notes the first stage behind the one that was asked about that cannot be trained with `set`.
void note_later_stage(const FitRequest& request, const Experiment& asked, const std::vector<std::string>& set,
                      const DeviceSource& devices, Planner& planner, FitFindings& findings);

ChoiceOptions choice_options(const FitRequest& request);

/// What becomes of the numbers where other ranks share the batch: configs/PARALLEL.md, What each takes.
NumbersEffect effect_of_other_ranks(const Experiment& experiment);

/// Of choices, the best first: the best, the fastest that keeps the result, and the fastest.
std::vector<Change> best_few(const std::vector<Change>& choices);

}  // namespace trainer
