#include "engine/train/session.h"

#include "engine/plan/allocator_options.h"
#include "engine/plan/make_allocator.h"
#include "engine/plan/process_memory.h"

namespace trainer {

Session::Session(const CompiledExperiment& compiled, const LoadedData& data, Device& device, std::int64_t capacity,
                 bool synchronous)
    : compiled_(compiled),
      data_(data),
      device_(device),
      source_(device.make_memory_source(capacity)),
      allocator_(make_allocator(compiled.program, *source_, allocator_options(compiled.experiment))),
      executor_(compiled.program, device, *allocator_,
                {.replays = compiled.experiment.device.cuda_graph,
                 .branches = compiled.experiment.device.branches,
                 .synchronous = synchronous}) {}

Sampler Session::training_sampler() const {
  return Sampler({.num_samples = data_.train->size(),
                  .batch_size = schedule().batch_size(),
                  .shuffle = experiment().data.shuffle,
                  .drop_last = experiment().data.drop_last,
                  .seed = experiment().seed,
                  .shuffle_window = experiment().data.shuffle_buffer});
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

BatchReader Session::read_validation() const {
  BatchReaderOptions options = reader_options();
  options.endless = false;
  return BatchReader(*data_.validation,
                     Sampler({.num_samples = data_.validation->size(), .batch_size = schedule().eval_batch_size()}),
                     options);
}

BatchReaderOptions Session::reader_options() const {
  // Where a batch is copied before anything is computed, its memory is filled anew meanwhile.
  return {.num_buffers = static_cast<std::size_t>(num_staged_batches(device_)),
          .num_workers = num_readers(experiment(), data_.description, device_),
          .make_memory = [&device = device_](std::int64_t num_bytes) { return device.make_host_memory(num_bytes); }};
}

}  // namespace trainer
