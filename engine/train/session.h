#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "datasets/batch_reader.h"
#include "datasets/dataset.h"
#include "engine/device/device.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/train/executor.h"

namespace trainer {

/// What hands memory of a device out, and where it gets it from.
struct SessionMemory {
  SessionMemory() = default;
  SessionMemory(std::unique_ptr<MemorySource> from, std::unique_ptr<Allocator> through)
      : source(std::move(from)), allocator(std::move(through)) {}
  SessionMemory(SessionMemory&&) noexcept = default;
  /// What was held goes back to its source before that goes.
  SessionMemory& operator=(SessionMemory&& other) noexcept {
    allocator = std::move(other.allocator);
    source = std::move(other.source);
    return *this;
  }
  ~SessionMemory() = default;

  std::unique_ptr<MemorySource> source;
  std::unique_ptr<Allocator> allocator;  ///< over `source`; null: there is none
};

/// A compiled experiment on a device, with its data: the memory it runs in, what runs it, and how its batches are read.
/// Everything that was allocated has been given back at its end, but for what hand_on_memory() has handed on.
class Session {
 public:
  /// All but the capacity and the memory must outlive it; nothing is allocated yet. `synchronous`: ExecutorOptions.
  /// `memory`: of a session before, with what is cached there; none: memory of its own.
  Session(const CompiledExperiment& compiled, const LoadedData& data, Device& device, std::int64_t capacity,
          bool synchronous = false, SessionMemory memory = {});
  ~Session() {
    if (memory_.allocator) executor_.release_all();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Experiment& experiment() const { return compiled_.experiment; }
  const Program& program() const { return compiled_.program; }
  const RunSchedule& schedule() const { return compiled_.schedule; }
  const LoadedData& data() const { return data_; }
  Device& device() const { return device_; }
  Executor& executor() { return executor_; }
  Allocator& allocator() { return *memory_.allocator; }
  const MemorySource& source() const { return *memory_.source; }

  /// Releases everything, and hands on what is cached then. The session is over. The allocator is null, and everything
  /// has been given back, where its segments serve no other.
  SessionMemory hand_on_memory();

  /// The order in which training reads its data.
  Sampler training_sampler() const;
  /// Reads the training data over and over; the sampler's order, from `start` on.
  std::unique_ptr<BatchReader> read_training(const Sampler& sampler, BatchPosition start = {}) const;
  /// The order in which evaluations read theirs, all of it.
  Sampler validation_sampler() const;
  /// Reads the validation data once.
  BatchReader read_validation() const;

 private:
  BatchReaderOptions reader_options() const;

  const CompiledExperiment& compiled_;
  const LoadedData& data_;
  Device& device_;
  SessionMemory memory_;
  std::unique_ptr<Allocator> handed_on_;  ///< the allocator that holds nothing any more
  Executor executor_;
};

}  // namespace trainer
