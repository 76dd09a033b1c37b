#include "engine/findings/find_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/graph/metrics.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/evaluation_program.h"

namespace trainer {
namespace {

/// Of more the matrix takes memory that nobody asked for: this many are 8 MiB.
constexpr std::int64_t most_confused_classes = 1024;

CompiledExperiment compile_in_batches_of(Experiment experiment, std::int64_t batch_size, const DataDescription& data,
                                         const DeviceModel& device, std::int64_t num_worst) {
  experiment.train.eval_batch_size = batch_size;
  return compile_for_evaluation(experiment, data, device, num_worst);
}

/// The largest batch up to which evaluations fit, as far as halving finds it; 0: not even one sample does.
std::int64_t find_batch_that_fits(const CompiledExperiment& compiled, const DeviceModel& device, std::int64_t capacity,
                                  std::int64_t num_worst) {
  std::int64_t fitting = 0, failing = compiled.schedule.eval_batch_size();
  while (fitting + 1 < failing) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    const CompiledExperiment tried =
        compile_in_batches_of(compiled.experiment, middle, compiled.data, device, num_worst);
    (plan_memory(tried, capacity).fits ? fitting : failing) = middle;
  }
  return fitting;
}

/// Counts the confusion matrix of one class a sample, where that changes nothing else.
bool counts_confusion_unasked(const Experiment& experiment, const DataDescription& data, const Program& program) {
  return data.categorical() && data.target.num_elements() == 1 && data.num_outputs >= 2 &&
         data.num_outputs <= most_confused_classes && experiment.train.confusion_matrix != ConfusionMatrixUse::off &&
         counted_by(experiment, data) == Counted::nothing && !has_logits_in_parts(program);
}

std::vector<std::string> names_of_classes(const LoadedData& data) {
  std::vector<std::string> names;
  if (!data.description.categorical()) return names;
  names = data.preprocessing.classes;
  for (auto i = static_cast<std::int64_t>(names.size()); i < data.description.num_outputs; ++i)
    names.push_back(fmt::format("{}", i));
  return names;
}

}  // namespace

EvaluationFindings find_evaluation(const EvaluationRequest& request, const WeightFiles& files, const LoadedData& data,
                                   Device& device, Interruption& interruption) {
  if (!data.validation)
    throw ConfigError("there is no validation data to evaluate on: give --data, data.split or data.validation");
  EvaluationFindings findings;
  findings.capacity = run_capacity(request.experiment, data.description, device, /*dataset_is_loaded=*/true);
  Experiment experiment = request.experiment;
  if (experiment.train.batch_size.is_automatic() && experiment.train.eval_batch_size == 0)
    experiment = settle_experiment(experiment, data.description, device, findings.capacity);
  else if (experiment.train.batch_size.is_automatic())
    experiment.train.batch_size = 1;  // of training alone
  CompiledExperiment compiled = compile_for_evaluation(experiment, data.description, device, request.num_worst);
  const bool counts_unasked = counts_confusion_unasked(experiment, data.description, compiled.program);
  if (counts_unasked) {
    experiment.train.confusion_matrix = ConfusionMatrixUse::on;
    compiled = compile_for_evaluation(experiment, data.description, device, request.num_worst);
  }
  const WeightsMatch match = match_weights(experiment.weights, files, compiled.program);
  require_match(match);
  if (match.count(WeightsStatus::fresh) > 0)
    throw ConfigError("weights.new leaves parameters without a value to evaluate: an evaluation takes all of them");

  findings.experiment_name = experiment.name;
  findings.config_path = request.config_path;
  findings.overrides = request.overrides;
  findings.options = request.options;
  findings.device_kind = device.kind();
  findings.device_name = device.name();
  findings.weights = match.path;
  findings.class_names = names_of_classes(data);
  findings.target_unit = target_unit(data.preprocessing);
  findings.batch_size = compiled.schedule.eval_batch_size();
  for (const BufferId parameter : compiled.program.parameter_buffers)
    findings.parameter_bytes += compiled.program.buffers[parameter].num_bytes;
  findings.process = process_memory(compiled.experiment, compiled.program, data.description, device);
  if (const std::int64_t num_bytes = bytes_of_looked_at_logits(compiled.program); num_bytes > 0)
    findings.process.parts.push_back({"logits of a batch", num_bytes});
  const std::int64_t kept_bytes =
      std::min(request.num_worst, data.validation->size()) * static_cast<std::int64_t>(sizeof(SampleLoss));
  if (kept_bytes > 0) findings.process.parts.push_back({"samples of the highest loss", kept_bytes});
  findings.plan = plan_memory(compiled, findings.capacity);
  if (!findings.plan.fits) {
    findings.unbounded = plan_memory(compiled, unlimited_capacity);
    findings.batch_that_fits = find_batch_that_fits(compiled, device, findings.capacity, request.num_worst);
    return findings;
  }
  if (request.num_worst > 0) {
    const SampleLosses losses(compiled.experiment, data.description, 1);
    if (compiled.program.kept_predictions.empty())
      findings.notes.emplace_back(
          has_logits_in_parts(compiled.program)
              ? "losses of single samples are not told, since logits are never whole (memory.chunked_loss); "
                "memory.chunked_loss=0 makes them so"
              : "losses of single samples are not told: the loss is of all of them together");
    else if (!losses.has_all_terms())
      findings.notes.emplace_back("losses of single samples are without dice and feature, which no sample has alone");
  }
  findings.run = run_evaluation(compiled, data, device, findings.capacity, match, files, request.num_worst,
                                interruption, [&](std::int64_t num_samples) {
                                  if (request.on_batch) request.on_batch(num_samples, data.validation->size());
                                });
  if (counts_unasked) {
    // What a run of the experiment does not tell, but for the matrix.
    CountedMetrics& counted = findings.run.evaluation.counted;
    counted.accuracy.reset();
    counted.mean_iou.reset();
    counted.dice.reset();
  }
  for (const SampleLoss& sample : findings.run.worst)
    findings.worst.push_back({data.validation->number_of(sample.index), data.validation->name_of(sample.index)});
  return findings;
}

}  // namespace trainer
