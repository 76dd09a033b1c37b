#include "engine/findings/find_prediction_plan.h"

#include <algorithm>

#include "engine/findings/plan_target.h"
#include "engine/graph/generation_graph.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/program/prediction.h"

namespace trainer {
namespace {

Program program_of(const PredictionPlanRequest& request, std::int64_t batch_size, const DeviceModel& device) {
  return compile_prediction(request.experiment, request.data, batch_size, odd_batch_of(request.num_inputs, batch_size),
                            device);
}

bool prediction_fits(const PredictionPlanRequest& request, std::int64_t batch_size, const DeviceModel& device,
                     std::int64_t capacity) {
  return make_prediction_plan(program_of(request, batch_size, device), capacity, allocator_options(request.experiment))
      .fits;
}

/// A batch up to `most` that fits, and by bisection no larger one is seen to; 0: not one input does. A larger batch
/// mostly holds more; whether it does or not, what is returned was planned.
std::int64_t find_fitting_batch(const PredictionPlanRequest& request, std::int64_t most, const DeviceModel& device,
                                std::int64_t capacity) {
  if (prediction_fits(request, most, device, capacity)) return most;
  std::int64_t fitting = 0, failing = most;
  while (fitting + 1 < failing) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    (prediction_fits(request, middle, device, capacity) ? fitting : failing) = middle;
  }
  return fitting;
}

/// 0: the model takes no texts.
std::int64_t window_length_of(const DataDescription& data) {
  const TensorType& input = data.inputs.front().type;
  return input.dtype == DType::i32 ? input.num_elements() : 0;
}

}  // namespace

std::int64_t usual_most_batch(const DeviceModel& device, const DataDescription& data) {
  constexpr std::int64_t of_cpu = 32, of_gpu = 256, tokens_of_cpu = 1024, tokens_of_gpu = 16384;
  const bool is_cpu = device.kind() == "cpu";
  if (const std::int64_t length = window_length_of(data); length > 0)
    return std::max<std::int64_t>((is_cpu ? tokens_of_cpu : tokens_of_gpu) / length, 1);
  return is_cpu ? of_cpu : of_gpu;
}

std::int64_t odd_batch_of(std::optional<std::int64_t> num_inputs, std::int64_t batch_size) {
  return num_inputs && *num_inputs > batch_size ? *num_inputs % batch_size : 0;
}

PredictionPlanFindings find_prediction_plan(const PredictionPlanRequest& request, const DeviceModel& device,
                                            const Capacity& capacity) {
  PredictionPlanFindings findings;
  findings.window_length = window_length_of(request.data);
  if (findings.window_length > 0) require_next_token_model(request.experiment, request.data);
  findings.experiment_name = request.experiment.name;
  findings.path = request.path;
  findings.overrides = request.overrides;
  findings.device_kind = device.kind();
  findings.device_name = device.name();
  findings.capacity = capacity;
  findings.is_found = !request.batch_size;
  const std::int64_t most = std::min(request.batch_size.value_or(usual_most_batch(device, request.data)),
                                     std::max<std::int64_t>(request.num_inputs.value_or(most_asked_batch), 1));
  findings.most_tried = most;
  const std::int64_t fitting = find_fitting_batch(request, most, device, capacity.num_bytes);
  findings.batch_size = findings.is_found ? std::max<std::int64_t>(fitting, 1) : most;
  findings.odd_batch_size = odd_batch_of(request.num_inputs, findings.batch_size);
  const Program program = program_of(request, findings.batch_size, device);
  findings.num_parameters = num_parameters(program);
  for (const BufferId parameter : program.parameter_buffers)
    findings.parameter_bytes += program.buffers[parameter].num_bytes;
  findings.plan = make_prediction_plan(program, capacity.num_bytes, allocator_options(request.experiment));
  if (!findings.plan.fits) {
    findings.unbounded = make_prediction_plan(program, unlimited_capacity, allocator_options(request.experiment));
    findings.fitting_batch = fitting;
  }
  findings.process = prediction_process_memory(program, request.data, device);
  findings.outside_allocator = device.outside_allocator();
  return findings;
}

PredictionPlanFindings find_prediction_plan(const PredictionPlanRequest& request, const DeviceSource& devices) {
  const PlanTarget target = find_plan_target(devices, request.experiment, request.data, request.gpu, request.capacity);
  PredictionPlanFindings findings = find_prediction_plan(request, *target.device, target.capacity);
  findings.profile = target.profile;
  findings.notes = target.notes;
  return findings;
}

}  // namespace trainer
