#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "datasets/batch_reader.h"
#include "engine/train/executor.h"

namespace trainer {

/// Predicts batches with a program of compile_prediction whose parameters have their values, wherever these came from.
class Predictor {
 public:
  /// `executor` has run its program's load, and outlives this.
  explicit Predictor(Executor& executor);

  /// What the model puts out for the batch's samples, of which there is at least one and at most the program's batch
  /// size: numbers_of_input() each, valid until the next call. A batch smaller than the whole one runs as the odd last
  /// one where it is that, else as a whole one, whose memory it has. `on_copied` is called once the batch's memory may
  /// be filled anew. Throws ProgramOutOfMemory, after which parameters are as they were; DeviceError.
  std::span<const float> predict(const HostBatch& batch, const std::function<void()>& on_copied = {});

  std::int64_t batch_size() const { return routines_.batches.front().batch_size; }
  std::int64_t numbers_of_input() const;

 private:
  const PredictionRoutines::Batch& batch_of(std::int64_t num_samples) const;

  Executor& executor_;
  const PredictionRoutines& routines_;
  std::int64_t step_ = 0;
  std::vector<std::byte> raw_;
  std::vector<float> numbers_;
};

}  // namespace trainer
