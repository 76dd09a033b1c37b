#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/findings/device_source.h"
#include "engine/findings/known_rates.h"
#include "engine/findings/rank_range.h"
#include "engine/plan/machine_rates.h"
#include "engine/plan/search/change.h"
#include "engine/plan/search/find_maximum.h"
#include "engine/plan/search/layouts/find_layouts.h"
#include "engine/plan/search/planning_watch.h"

namespace trainer {

/// GPUs that are alike, on machines with as many each, of which all are to be used: --gpu 'h100*16' --nodes 2.
struct GpuNodes {
  std::int64_t num_gpus = 1, num_nodes = 1;

  std::int64_t gpus_per_node() const { return num_gpus / num_nodes; }
};

/// What `trainer fit` is asked for.
struct FitRequest {
  std::string config_path;
  std::vector<std::string> overrides;
  std::string gpu, capacity;  ///< as --gpu and --capacity take them; empty: not given
  std::string max;            ///< KEY or KEY=LOWEST..HIGHEST: its largest value is sought; empty: the fastest settings
  std::string stage{};        ///< of several stages that which is looked at
  bool keeps_result = false;  ///< of those only what has the same result, not just the same samples in an update
  std::optional<RankRange> ranks{};  ///< several numbers of ranks to search over; nothing: as the experiment says
  std::optional<GpuNodes> nodes{};   ///< GPUs whose layouts are searched; nothing: as the experiment says
  PlanningWatch* watch = nullptr;
};

/// How the ranks of a choice share the model.
struct ChosenLayout {
  Layout layout;
  double computing_share = 1;   ///< Verdict::computing_share
  std::int64_t sent_bytes = 0;  ///< Verdict::sent_bytes
};

/// A way to train that fits.
struct FitChoice : Change {
  /// Where several numbers of ranks were searched: of the time of all of them, what one rank with these settings and
  /// memory enough would take; nothing where the links between them are not known.
  std::optional<double> efficiency;
  std::optional<ChosenLayout> layout;  ///< where layouts were searched

  std::int64_t num_ranks() const { return total_ranks(experiment.parallel); }
};

/// A number of ranks that was looked at.
struct SearchedRanks {
  std::int64_t num_ranks = 1;
  std::string problem;        ///< why it was left out; empty: it was searched
  std::int64_t capacity = 0;  ///< of each of them
  bool fits = false;          ///< something was found
  bool knows_links = true;    ///< as FitFindings has it
};

/// Which layouts were looked at.
struct SearchedLayouts {
  GpuNodes gpus;
  std::int64_t num_layouts = 0, num_planned = 0, num_too_large = 0;  ///< as LayoutFindings has them
  std::vector<RefusedLayouts> refused;
};

/// What `trainer fit` found, as data.
struct FitFindings {
  std::string experiment_name, config_path;
  std::vector<std::string> overrides;  ///< the experiment was loaded with
  std::string capacity_given;          ///< as --capacity took it; empty: not given
  std::string device_kind, device_name;
  std::string profile;  ///< the file that describes the device; empty: it is one of this machine
  std::int64_t capacity = 0;
  std::string capacity_origin;                   ///< as PlanFindings::capacity_origin
  std::vector<NamedBytes> outside_allocator;     ///< DeviceModel::outside_allocator
  std::vector<std::string> notes;                ///< sentences about what was asked for and is not as it seems
  std::optional<Maximum> maximum;                ///< where a key's largest value was asked for
  std::vector<FitChoice> choices;                ///< else: as they are advised (is_advised_before), then fewer ranks
  std::vector<SearchedRanks> searched_ranks;     ///< ascending; none: one number was asked for
  std::optional<SearchedLayouts> layouts;        ///< where these were searched
  std::int64_t effective_batch = 0;              ///< samples of an update, which the choices keep
  std::int64_t batch_size = 0;                   ///< as it is; 0: its largest value is sought, or auto stands for it
  std::optional<std::int64_t> asked_batch_size;  ///< train.batch_size, where it is a number
  std::int64_t num_ranks = 1;                    ///< that share each batch; bytes are of rank 0
  bool knows_links = true;                       ///< between them: else no time has in it that they wait for each other
  bool as_is_fits = false;
  std::int64_t as_is_peak = 0;  ///< of the experiment as it is; 0: it cannot be planned
  MachineRates::Origin rates = MachineRates::Origin::assumed;
  std::string rates_source;  ///< MachineRates::source

  /// Where in `choices` the fastest is.
  std::size_t fastest() const;
  /// Those to paste, ascending: the first, the fastest, and where the first keeps the result the fastest that does.
  std::vector<std::size_t> pasted() const;
  bool found() const { return maximum ? maximum->value().has_value() : !choices.empty(); }
};

/// Throws ConfigError, DataError, DeviceError, PlanningInterrupted.
FitFindings find_fit(const FitRequest& request, const DeviceSource& devices, const RatesProblemSink& on_rates_problem);

}  // namespace trainer
