#include "engine/findings/find_text_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/findings/plan_target.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/program/generation.h"

namespace trainer {
namespace {

MemoryPlan plan_text(const Experiment& experiment, std::int64_t length, const DeviceModel& device,
                     std::int64_t capacity) {
  return make_text_plan(compile_generation(experiment, length, device), capacity, allocator_options(experiment));
}

/// A longer text holds more, so the lengths that fit are those up to one.
std::int64_t find_longest(const Experiment& experiment, std::int64_t longest, const DeviceModel& device,
                          std::int64_t capacity) {
  const std::int64_t end = longest > 0 ? longest : most_tried_length;
  const auto fits = [&](std::int64_t length) { return plan_text(experiment, length, device, capacity).fits; };
  if (fits(end)) return end;
  std::int64_t fitting = 0, failing = end;
  while (fitting + 1 < failing) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    (fits(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

/// 16-bit parameters, bf16 where the device has it.
std::optional<TextPlanFindings::Fix> find_half(const Experiment& experiment, std::int64_t length,
                                               const DeviceModel& device, std::int64_t capacity) {
  if (experiment.train.amp != Amp::off) return std::nullopt;
  for (const auto& [amp, set] : {std::pair{Amp::bf16, "train.amp=bf16"}, {Amp::fp16, "train.amp=fp16"}}) {
    Experiment half = experiment;
    half.train.amp = amp;
    try {
      const MemoryPlan plan = plan_text(half, length, device, capacity);
      if (plan.fits) return TextPlanFindings::Fix{set, plan.peak_reserved};
      return std::nullopt;
    } catch (const DeviceError&) {  // it has no such numbers
    }
  }
  return std::nullopt;
}

}  // namespace

DataDescription data_of_texts() {
  DataDescription data;
  InputDescription& tokens = data.inputs.emplace_back();
  tokens.type = {DType::i32, {1}};
  data.num_train = 1;
  return data;
}

TextPlanFindings find_text_plan(const TextPlanRequest& request, const DeviceModel& device, const Capacity& capacity) {
  const Experiment& experiment = request.experiment;
  const Program program = compile_generation(experiment, request.length, device);
  TextPlanFindings findings;
  findings.experiment_name = experiment.name;
  findings.config_path = request.config_path;
  findings.overrides = request.overrides;
  findings.gpu_given = request.gpu;
  findings.capacity_given = request.capacity;
  findings.device_kind = device.kind();
  findings.device_name = device.name();
  findings.capacity = capacity;
  findings.length = request.length;
  findings.num_parameters = num_parameters(program);
  for (const BufferId parameter : program.parameter_buffers)
    findings.parameter_bytes += program.buffers[parameter].num_bytes;
  const TextRoutines& generation = *program.generation;
  findings.num_kept = std::max<std::int64_t>(request.length - 1, 1);
  for (const BufferId kept : generation.kept)
    if (kept != generation.logits()) findings.cache_bytes += program.buffers[kept].num_bytes;
  findings.plan = make_text_plan(program, capacity.num_bytes, allocator_options(experiment));
  if (!findings.plan.fits) {
    findings.unbounded = make_text_plan(program, unlimited_capacity, allocator_options(experiment));
    findings.half = find_half(experiment, request.length, device, capacity.num_bytes);
  }
  findings.longest_text = longest_text(experiment);
  if (request.finds_longest || !findings.plan.fits)
    findings.longest_that_fits = find_longest(experiment, findings.longest_text, device, capacity.num_bytes);
  findings.process = text_process_memory(program, device);
  findings.outside_allocator = device.outside_allocator();
  return findings;
}

TextPlanFindings find_text_plan(const TextPlanRequest& request, const DeviceSource& devices) {
  const PlanTarget target =
      find_plan_target(devices, request.experiment, data_of_texts(), request.gpu, request.capacity);
  TextPlanFindings findings = find_text_plan(request, *target.device, target.capacity);
  findings.profile = target.profile;
  findings.notes = target.notes;
  return findings;
}

}  // namespace trainer
