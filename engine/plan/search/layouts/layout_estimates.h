#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <variant>
#include <vector>

#include "engine/errors.h"
#include "engine/plan/search/layouts/layout.h"
#include "engine/plan/search/layouts/model_costs.h"
#include "engine/program/pipeline/message_order.h"
#include "engine/program/pipeline/stage_cut.h"
#include "engine/program/run_schedule.h"

namespace trainer {

// Note [Estimates of layouts]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A plan of a layout compiles every stage of it, and there are hundreds of layouts. What they consist of is much less:
// micro-batches of a few sizes, of which one program of the whole model says what each layer takes, and cuts of the
// list of layers. So a layout is estimated from these: its items take what their layers take, are timed beside each
// other in its order (time_items in engine/program/pipeline/schedules.h), and where ranks share a batch, the update, or
// with parts of gradients and weights each item, takes the time of what they tell each other, or the longer of the two
// where that goes on beside it.
//
// Left out is what only a program knows: messages that wait in line, what does not overlap, the ends of allocations.
// Nearly all of it makes a step longer and a rank hold more, so estimates are as good as bounds from below: a search
// that plans the lowest first and ends where they are above what was found has the fastest but for what they are too
// high by. most_too_high bounds that; tests/plan/search/layouts_test.cpp compares them with all plans of small models.

/// What a layout comes to, about, without a plan of it.
struct LayoutEstimate {
  double step_seconds = 0;
  std::int64_t held_bytes = 0;  ///< by the rank that holds most
};

/// By how much of themselves estimates may be too high.
inline constexpr double most_too_high = 0.02;

/// Estimates layouts of one experiment; what several have in common is found once.
class LayoutEstimates {
 public:
  /// All but `experiment` must outlive it.
  LayoutEstimates(Experiment experiment, const DataDescription& data, const DeviceModel& device,
                  const MachineRates& rates);

  /// Throws ConfigError where the model is not cut like that.
  LayoutEstimate of(const Layout& layout);

  /// Models of a micro-batch that were compiled: what most of the time goes to.
  std::int64_t num_compiled() const { return num_compiled_; }

 private:
  /// A cut of the model, and what goes across.
  struct Cut {
    StageCut cut;
    std::vector<StageMessage> messages;
    std::vector<std::vector<std::int32_t>> chunks_of_parameters, stages_of_parameters;
  };
  /// A problem that was met stays one.
  template <typename Value>
  using Known = std::variant<Value, ConfigError>;
  struct Stage;

  const ModelCosts& costs_of(std::int64_t tensor, std::int64_t num_samples, bool splits_backward);
  const Cut& cut_of(const ModelCosts& costs, const Layout& layout, std::int64_t num_samples);
  std::vector<Stage> stages_of(const ModelCosts& costs, const Cut& cut, const Layout& layout) const;
  /// Of the slowest stage; `sums_gradients`: that is not done before.
  double update_seconds(const ModelCosts& costs, const std::vector<Stage>& stages, const Layout& layout,
                        bool sums_gradients) const;
  double message_seconds(const ModelCosts& costs, const Cut& cut, const Layout& layout) const;

  const Experiment experiment_;
  const DataDescription& data_;
  const DeviceModel& device_;
  const MachineRates& rates_;
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, Known<ModelCosts>> costs_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, Known<Cut>> cuts_;
  std::int64_t num_compiled_ = 0;
};

}  // namespace trainer
