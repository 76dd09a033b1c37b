#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "datasets/dataset.h"
#include "engine/device/device.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/train/events.h"
#include "engine/train/files/weight_files.h"
#include "engine/train/sample_losses.h"
#include "engine/train/training_run.h"

namespace trainer {

/// What an evaluation of saved weights is compiled of: Note [Evaluation alone] in engine/program/evaluation_program.h.
/// Where `num_worst` is above 0 the logits are kept, if the loss reads them whole. Its schedule is that of a run of no
/// steps, whose plan is plan_memory(). `experiment` has a number for train.batch_size. Throws ConfigError.
CompiledExperiment compile_for_evaluation(const Experiment& experiment, const DataDescription& data,
                                          const DeviceModel& device, std::int64_t num_worst);

/// Bytes on the host in which the logits of a batch are looked at; 0: they are not.
std::int64_t bytes_of_looked_at_logits(const Program& program);

struct EvaluationRun {
  RunStatus status = RunStatus::done;
  EvalEvent evaluation;                   ///< where it is done
  std::optional<DivergedEvent> diverged;  ///< where the loss is not finite
  std::vector<SampleLoss> worst;          ///< the highest losses, as many as were asked for
  StepMemory memory;                      ///< the highest of loading and the evaluation
};

/// Loads weights and evaluates them once, as a run does. `compiled` is of compile_for_evaluation(), with the same
/// `num_worst`; `match` is of its program, and nothing of it is new. Writes no file and gives everything back.
/// `on_batch` is told how many samples were queued. Throws ProgramOutOfMemory, WeightsMismatch, DataError, DeviceError.
EvaluationRun run_evaluation(const CompiledExperiment& compiled, const LoadedData& data, Device& device,
                             std::int64_t capacity, const WeightsMatch& match, const WeightFiles& files,
                             std::int64_t num_worst, Interruption& interruption,
                             const std::function<void(std::int64_t num_samples)>& on_batch = {});

}  // namespace trainer
