#include "engine/findings/fit_over_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/bytes.h"
#include "engine/config/override_text.h"
#include "engine/errors.h"
#include "engine/findings/fit_search.h"
#include "engine/findings/kept_segments.h"
#include "engine/plan/link_rates.h"
#include "engine/plan/search/choices.h"
#include "engine/plan/search/technique_difference.h"

namespace trainer {
namespace {

/// Instructions (Planner::work) that are planned for other layouts than the fastest, and for other techniques: seconds.
constexpr std::int64_t most_work_of_layouts = 3'000'000, most_work_of_techniques = 3'000'000;
/// Experiments that a search for techniques plans, about.
constexpr std::int64_t num_planned_of_techniques = 60;

std::string key_of(const std::string& override_text) { return override_text.substr(0, override_text.find('=')); }

/// Where GPUs stand, if it is not where an experiment's would.
std::vector<std::string> node_overrides(const ParallelConfig& own, const GpuNodes& gpus) {
  const std::int64_t usual = own.ranks_per_node > 0 ? own.ranks_per_node : usual_gpus_per_node;
  const bool is_alike = gpus.gpus_per_node() == usual || (gpus.num_nodes == 1 && gpus.num_gpus < usual);
  return is_alike ? std::vector<std::string>{}
                  : std::vector{fmt::format("parallel.ranks_per_node={}", gpus.gpus_per_node())};
}

/// Layouts of one experiment on the GPUs that were asked about.
class FitOverLayouts {
 public:
  FitOverLayouts(const FitRequest& request, const DeviceSource& devices, const RatesProblemSink& on_rates_problem)
      : request_(request),
        devices_(devices),
        as_is_(request, request.overrides, devices),
        own_(as_is_.loaded.parallel),
        node_overrides_(node_overrides(own_, *request.nodes)),
        target_(find_plan_target(devices, of_all_gpus(), as_is_.data, request.gpu, request.capacity)),
        planner_(*target_.device, target_.rates, request.watch) {
    on_rates_problem(target_.rates_problem);
  }

  FitFindings find() {
    findings_ = begin_findings(request_, as_is_);
    findings_.capacity = capacity();
    findings_.capacity_origin = target_.capacity.origin;
    findings_.notes = target_.notes;
    findings_.outside_allocator = target_.device->outside_allocator();
    findings_.knows_links = slowest_link({request_.nodes->num_gpus}, target_.rates.links).has_value();
    const Verdict as_is = as_is_.planner.plan(as_is_.experiment, as_is_.data, as_is_.capacity());
    if (!as_is.problem) note_as_is(as_is_, as_is, findings_);
    base_seconds_ = as_is.problem ? 0 : as_is.time.seconds;
    search();
    std::stable_sort(findings_.choices.begin(), findings_.choices.end(), is_advised_before);
    if (findings_.choices.empty()) return std::move(findings_);
    for (const std::size_t i : findings_.pasted())
      note_later_stage(request_, as_is_.experiment, findings_.choices[i].set, devices_, planner_, findings_);
    return std::move(findings_);
  }

 private:
  std::int64_t capacity() const { return target_.capacity.num_bytes; }
  /// Beside what carries tensors between ranks of such a layout.
  std::int64_t capacity_of(const Layout& layout) const {
    const auto num_bytes = [&](const ParallelConfig& parallel) {
      return target_.device->communication_memory(rank_layout(parallel)).num_bytes;
    };
    const std::int64_t free_bytes = target_.available_bytes + num_bytes(of_all_gpus().parallel) -
                                    num_bytes(with_layout(as_is_.loaded, layout).parallel);
    const bool is_all_that_is_free = capacity() == target_.available_bytes;
    return std::max<std::int64_t>(0, is_all_that_is_free ? free_bytes : std::min(capacity(), free_bytes));
  }

  /// As all layouts are alike to the device.
  Experiment of_all_gpus() const {
    if (as_is_.loaded.train.batch_size.is_automatic())
      throw ConfigError("--nodes: 'train.batch_size: auto' is found by one process for itself; set a number");
    Experiment experiment = with_layout(as_is_.loaded, {.data = request_.nodes->num_gpus});
    experiment.parallel.ranks_per_node = request_.nodes->gpus_per_node();
    return experiment;
  }

  Experiment load(const Layout& layout) const {
    std::vector<std::string> overrides = request_.overrides;
    for (const std::string& each : all_overrides(layout)) {
      std::erase_if(overrides, [&](const std::string& given) { return key_of(given) == key_of(each); });
      overrides.push_back(each);
    }
    return with_kept_segments(load_asked(request_, overrides), target_);
  }

  std::vector<std::string> all_overrides(const Layout& layout) const {
    std::vector<std::string> overrides = layout_overrides(own_, layout);
    overrides.insert(overrides.end(), node_overrides_.begin(), node_overrides_.end());
    return overrides;
  }

  void search() {
    if (request_.watch != nullptr)
      request_.watch->plans_for(fmt::format("layouts of {} GPUs", request_.nodes->num_gpus));
    const LayoutSpace space{.num_ranks = request_.nodes->num_gpus, .most_tensor = request_.nodes->gpus_per_node()};
    Experiment experiment = of_all_gpus();
    LayoutFindings found = find_layouts(
        planner_, experiment, as_is_.data, [this](const Layout& layout) { return capacity_of(layout); }, space,
        [this](const Layout& layout) { return load(layout); },
        {.most_work = most_work_of_layouts, .most_work_for_best = 10 * most_work_of_layouts});
    findings_.layouts = {.gpus = *request_.nodes,
                         .num_layouts = found.num_layouts,
                         .num_planned = found.num_planned,
                         .num_too_large = found.num_too_large,
                         .refused = found.refused};
    note_refused(found);
    if (!found.is_complete)
      findings_.notes.emplace_back(
          found.knows_fastest ? "Not every way to share the model is named, since planning more takes long: none that "
                                "is left out is faster than the fastest of these."
                              : "The search was ended, since planning takes long: a faster layout may be left out.");
    if (found.found.empty()) return;
    note_parts();
    note_capacities(found);
    const FoundLayout& fastest = found.found.front();
    if (findings_.effective_batch == 0) note_batch_of(fastest);
    if (base_seconds_ == 0) base_seconds_ = fastest.verdict.time.seconds;
    for (const FoundLayout& each : found.found) {
      const Experiment plain = load(each.layout);
      TechniqueDifference difference = find_technique_difference(plain, each.experiment, as_is_.data);
      Change choice;
      choice.experiment = each.experiment;
      choice.set = std::move(difference.set);
      choice.parts = std::move(difference.parts);
      choice.numbers = difference.numbers;
      add(std::move(choice), each.verdict);
    }
    add_techniques(fastest);
  }

  void note_batch_of(const FoundLayout& found) {
    const RunSchedule schedule(found.experiment, as_is_.data);
    note_batch(schedule, findings_);
    findings_.effective_batch = schedule.step(1).num_samples;
  }

  /// What others than the layout's keys make of the fastest, where it is planned quickly.
  void add_techniques(const FoundLayout& fastest) {
    const std::int64_t before = planner_.work();
    planner_.plan_what_fits(fastest.experiment, as_is_.data, capacity_of(fastest.layout));
    const std::int64_t work = (planner_.work() - before) * num_planned_of_techniques;
    // Under a capacity that asks for recomputation, searches for what to compute again come to that.
    if (fastest.recomputes || work > most_work_of_techniques) {
      findings_.notes.push_back(
          "Other techniques (train.amp, memory) were not searched for, as planning these layouts takes long: 'fit' "
          "with the settings of one of them does that.");
      return;
    }
    const std::vector<Change> choices =
        find_choices(planner_, fastest.experiment, as_is_.data, capacity_of(fastest.layout), choice_options(request_));
    std::vector<Change> sorted = choices;
    std::stable_sort(sorted.begin(), sorted.end(), is_advised_before);
    for (Change& choice : best_few(sorted)) {
      if (choice.set.empty()) continue;
      const Experiment plain = load(fastest.layout);
      TechniqueDifference difference = find_technique_difference(plain, choice.experiment, as_is_.data);
      choice.set = std::move(difference.set);
      choice.parts = std::move(difference.parts);
      const Verdict verdict = planner_.plan(choice.experiment, as_is_.data, capacity_of(fastest.layout));
      if (verdict.fits) add(std::move(choice), verdict);
    }
  }

  /// `choice` has what it changes but for the layout.
  void add(Change choice, const Verdict& verdict) {
    const Layout layout = layout_of(choice.experiment.parallel);
    const NumbersEffect effect =
        layout == layout_of(own_) ? NumbersEffect::same_bits : effect_of_other_ranks(choice.experiment);
    choice.numbers = std::max(choice.numbers, effect);
    if (request_.keeps_result && !choice.same_result()) return;
    std::erase_if(choice.set, [](const std::string& each) { return key_of(each) == "parallel.shard"; });
    add_prefix(choice.set, as_is_.experiment.override_prefix);
    std::vector<std::string> set = all_overrides(layout);
    set.insert(set.end(), std::make_move_iterator(choice.set.begin()), std::make_move_iterator(choice.set.end()));
    choice.set = std::move(set);
    choice.peak_reserved = verdict.peak_reserved;
    choice.capacity = capacity_of(layout);
    choice.step_seconds = verdict.time.seconds;
    choice.samples_per_second = static_cast<double>(verdict.samples_per_step) / verdict.time.seconds;
    choice.relative_step_time = verdict.time.seconds / base_seconds_;
    const ChosenLayout chosen{
        .layout = layout, .computing_share = verdict.computing_share, .sent_bytes = verdict.sent_bytes};
    findings_.choices.push_back({std::move(choice), std::nullopt, chosen});
  }

  /// What layouts make of numbers that depend on which samples are taken together.
  void note_parts() {
    if (effect_of_other_ranks(of_all_gpus()) != NumbersEffect::other) return;
    findings_.notes.emplace_back(
        request_.keeps_result
            ? "Left out: all layouts but the experiment's own, since a part of a batch has another result than the "
              "batch, and --keep same-result is asked for."
            : "What is found of a part of a batch, as batch norms do, is another part with other layouts, so they "
              "have another result.");
  }

  void note_capacities(const LayoutFindings& found) {
    std::int64_t least = capacity();
    for (const FoundLayout& each : found.found) least = std::min(least, capacity_of(each.layout));
    if (least < capacity())
      findings_.notes.push_back(fmt::format(
          "Ranks that share more than batches hold more of NCCL's buffers: with some of these layouts {} are "
          "left, which is counted.",
          format_bytes(least)));
  }

  /// The most common reasons.
  void note_refused(const LayoutFindings& found) {
    constexpr std::size_t most_told = 3;
    for (std::size_t i = 0; i < std::min(found.refused.size(), most_told); ++i) {
      const RefusedLayouts& each = found.refused[i];
      findings_.notes.push_back(
          fmt::format("Left out: {} layout{}, such as {} x {} x {} ranks (data, pipeline, "
                      "tensor): {}.",
                      each.num_layouts, each.num_layouts == 1 ? "" : "s", each.first.data, each.first.pipeline,
                      each.first.tensor, each.reason));
    }
  }

  const FitRequest& request_;
  const DeviceSource& devices_;
  FitSearch as_is_;
  const ParallelConfig own_;
  const std::vector<std::string> node_overrides_;
  const PlanTarget target_;
  Planner planner_;
  FitFindings findings_;
  double base_seconds_ = 0;  ///< of a step as it is; 0: it cannot be planned
};

}  // namespace

FitFindings find_fit_over_layouts(const FitRequest& request, const DeviceSource& devices,
                                  const RatesProblemSink& on_rates_problem) {
  return FitOverLayouts(request, devices, on_rates_problem).find();
}

}  // namespace trainer
