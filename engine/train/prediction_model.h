#pragma once

#include <cstdint>
#include <memory>

#include "engine/config/experiment.h"
#include "engine/train/executor.h"
#include "engine/train/files/weight_files.h"
#include "engine/train/files/weights_match.h"
#include "engine/train/predictor.h"

namespace trainer {

/// A model in memory of its own that predicts: Note [Predictions] in engine/graph/prediction_graph.h. All memory is
/// taken by load(), and by the first batch of each size; it has been given back at the object's end.
class PredictionModel {
 public:
  /// `program` is one of compile_prediction for the experiment and the device; program and device outlive this. Nothing
  /// is allocated yet.
  PredictionModel(const Program& program, const Experiment& experiment, Device& device, std::int64_t capacity);
  ~PredictionModel() { executor_.release_all(); }
  PredictionModel(const PredictionModel&) = delete;
  PredictionModel& operator=(const PredictionModel&) = delete;

  /// Gives the parameters the file's values; `match` is that of the program, and nothing of it is new. Throws
  /// ProgramOutOfMemory; DataError as load_weights.
  void load(const WeightsMatch& match, const WeightFiles& files);
  /// The same, by the values that they have in an executor of the same model's training.
  void load(Executor& trained);

  Predictor& predictor() { return predictor_; }
  Executor& executor() { return executor_; }

 private:
  const std::unique_ptr<MemorySource> source_;
  const std::unique_ptr<Allocator> allocator_;
  Executor executor_;
  Predictor predictor_;
};

}  // namespace trainer
