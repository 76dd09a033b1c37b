#pragma once

#include <cstdint>
#include <memory>

#include "datasets/batch_reader.h"
#include "datasets/dataset.h"
#include "engine/device/device.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/train/executor.h"

namespace trainer {

/// A compiled experiment on a device, with its data: the memory it runs in, what runs it, and how its batches are read.
/// Everything that was allocated has been given back at its end.
class Session {
 public:
  /// All but the capacity must outlive it; nothing is allocated yet. `synchronous`: ExecutorOptions.
  Session(const CompiledExperiment& compiled, const LoadedData& data, Device& device, std::int64_t capacity,
          bool synchronous = false);
  ~Session() { executor_.release_all(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Experiment& experiment() const { return compiled_.experiment; }
  const Program& program() const { return compiled_.program; }
  const RunSchedule& schedule() const { return compiled_.schedule; }
  const LoadedData& data() const { return data_; }
  Device& device() const { return device_; }
  Executor& executor() { return executor_; }
  Allocator& allocator() { return *allocator_; }
  const MemorySource& source() const { return *source_; }

  /// The order in which training reads its data.
  Sampler training_sampler() const;
  /// Reads the training data over and over; the sampler's order, from `start` on.
  std::unique_ptr<BatchReader> read_training(const Sampler& sampler, BatchPosition start = {}) const;
  /// Reads the validation data once.
  BatchReader read_validation() const;

 private:
  BatchReaderOptions reader_options() const;

  const CompiledExperiment& compiled_;
  const LoadedData& data_;
  Device& device_;
  const std::unique_ptr<MemorySource> source_;
  const std::unique_ptr<Allocator> allocator_;
  Executor executor_;
};

}  // namespace trainer
