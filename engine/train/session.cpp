#include "engine/train/session.h"

#include <utility>

#include "engine/plan/allocator_options.h"
#include "engine/plan/make_allocator.h"
#include "engine/plan/process_memory.h"

namespace trainer {

namespace {

/// Under another capacity, which may be less than what is held.
SessionMemory taken_over(SessionMemory memory, std::int64_t capacity) {
  if (capacity < memory.source->held()) {
    memory.allocator->release_cached();
    memory.allocator->reset_peaks();
  }
  memory.source->set_capacity(capacity);
  return memory;
}

SessionMemory memory_for(const CompiledExperiment& compiled, Device& device, std::int64_t capacity,
                         SessionMemory former) {
  if (former.allocator) return taken_over(std::move(former), capacity);
  SessionMemory memory(device.make_memory_source(capacity), nullptr);
  memory.allocator = make_allocator(compiled.program, *memory.source, allocator_options(compiled.experiment));
  return memory;
}

}  // namespace

Session::Session(const CompiledExperiment& compiled, const LoadedData& data, Device& device, std::int64_t capacity,
                 bool synchronous, SessionMemory memory)
    : compiled_(compiled),
      data_(data),
      device_(device),
      memory_(memory_for(compiled, device, capacity, std::move(memory))),
      executor_(compiled.program, device, *memory_.allocator,
                {.replays = compiled.experiment.device.cuda_graph,
                 .branches = compiled.experiment.device.branches,
                 .synchronous = synchronous}) {}

SessionMemory Session::hand_on_memory() {
  executor_.release_buffers();
  std::unique_ptr<Allocator> next = memory_.allocator->hand_on();
  if (!next) {
    executor_.release_all();
    return {};
  }
  // What held it before is empty, but the executor knows it until the session ends.
  handed_on_ = std::exchange(memory_.allocator, nullptr);
  return {std::move(memory_.source), std::move(next)};
}

Sampler Session::training_sampler() const {
  return Sampler({.num_samples = data_.train->size(),
                  .batch_size = schedule().batch_size(),
                  .shuffle = experiment().data.shuffle,
                  .drop_last = experiment().data.drop_last,
                  .seed = experiment().seed,
                  .shuffle_window = experiment().data.shuffle_buffer,
                  .parts = schedule().parts()});
}

std::unique_ptr<BatchReader> Session::read_training(const Sampler& sampler, BatchPosition start) const {
  BatchReaderOptions options = reader_options();
  options.start = start;
  const std::vector<TransformSpec>& mixing = experiment().data.batch_transforms;
  if (!mixing.empty()) {
    const Shape& image = data_.description.inputs.front().type.shape;
    options.mixing.emplace(mixing, Pair{image[0], image[1]}, experiment().seed);
  }
  return std::make_unique<BatchReader>(*data_.train, sampler, options);
}

Sampler Session::validation_sampler() const {
  return Sampler({.num_samples = data_.validation->size(),
                  .batch_size = schedule().eval_batch_size(),
                  .parts = schedule().parts()});
}

BatchReader Session::read_validation() const {
  BatchReaderOptions options = reader_options();
  options.endless = false;
  return BatchReader(*data_.validation, validation_sampler(), options);
}

BatchReaderOptions Session::reader_options() const {
  // Where a batch is copied before anything is computed, its memory is filled anew meanwhile.
  return {.num_buffers = static_cast<std::size_t>(num_staged_batches(device_)),
          .num_workers = num_readers(experiment(), data_.description, device_),
          .make_memory = [&device = device_](std::int64_t num_bytes) { return device.make_host_memory(num_bytes); }};
}

}  // namespace trainer
