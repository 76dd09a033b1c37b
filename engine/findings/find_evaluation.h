#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "engine/plan/process_memory.h"
#include "engine/train/evaluation_run.h"

namespace trainer {

/// What `trainer eval` tells.
struct EvaluationFindings {
  std::string experiment_name, config_path, device_kind, device_name;
  std::vector<std::string> overrides;    ///< that were given
  std::vector<std::string> options;      ///< likewise, such as --weights with its value
  std::string weights;                   ///< the file that they come from
  std::vector<std::string> class_names;  ///< by number; of targets that are classes
  std::string target_unit;               ///< of numbers
  std::int64_t capacity = 0, batch_size = 0, parameter_bytes = 0;
  MemoryPlan plan;
  std::optional<MemoryPlan> unbounded;          ///< where it does not fit
  std::optional<std::int64_t> batch_that_fits;  ///< likewise: of evaluations; 0: none does
  ProcessMemory process;
  EvaluationRun run;  ///< where it fits
  /// Of each of run.worst: the number that the sample has in the whole data, and its file; empty: it has none.
  struct Sample {
    std::int64_t number = 0;
    std::string name;
  };
  std::vector<Sample> worst;
  std::vector<std::string> notes;  ///< sentences: what is not told, and why

  bool fits() const { return plan.fits; }
};

struct EvaluationRequest {
  Experiment experiment;               ///< with the weights' contract
  std::string config_path;             ///< as findings name it
  std::vector<std::string> overrides;  ///< likewise
  std::vector<std::string> options;    ///< likewise
  std::int64_t num_worst = 10;
  /// Told how many samples of how many were queued.
  std::function<void(std::int64_t num_samples, std::int64_t num_all)> on_batch{};
};

/// Evaluates weights on the validation data, where the plan fits. Everything is told that evaluations of the
/// experiment's runs tell, and of data with one class a sample the confusion matrix. Throws ProgramOutOfMemory where
/// memory that was there for the plan is there no more, WeightsMismatch, ConfigError, DataError, DeviceError.
EvaluationFindings find_evaluation(const EvaluationRequest& request, const WeightFiles& files, const LoadedData& data,
                                   Device& device, Interruption& interruption);

}  // namespace trainer
