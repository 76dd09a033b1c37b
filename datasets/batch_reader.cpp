#include "datasets/batch_reader.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "engine/device/aligned_memory.h"
#include "engine/device/thread_limit.h"

namespace trainer {

BatchReader::BatchReader(const Dataset& dataset, const Sampler& sampler, const BatchReaderOptions& options)
    : dataset_(dataset), sampler_(sampler), options_(options), buffers_(options.num_buffers) {
  for (const TensorType& type : dataset.input_types()) field_bytes_.push_back(type.num_bytes());
  field_bytes_.push_back(dataset.target_type().num_bytes());
  require_internal(options.num_buffers >= 1, "a reader has a buffer to fill");
  require_internal(sampler.num_samples() == dataset.size(), "a sampler counts the samples of its dataset");
  require_internal(!options.endless || sampler.num_batches() > 0, "an endless reader has batches");
  const std::int64_t batch_size = sampler.batch_size();
  const auto make_memory = [&](std::int64_t num_bytes) -> std::unique_ptr<HostMemory> {
    num_bytes = std::max<std::int64_t>(1, num_bytes);
    try {
      if (options.make_memory) return options.make_memory(num_bytes);
      return std::make_unique<AlignedMemory>(num_bytes);
    } catch (const std::bad_alloc&) {
      throw HostOutOfMemory("a batch of samples that is read ahead", num_bytes);
    }
  };
  for (Buffer& buffer : buffers_) {
    for (const std::int64_t num_bytes : field_bytes_) {
      buffer.memory.push_back(make_memory(batch_size * num_bytes));
      buffer.fields.push_back(buffer.memory.back()->data());
    }
  }
  try {
    thread_ = std::thread([this] { read_ahead(); });
  } catch (const std::system_error&) {
    throw thread_limit_error(num_running_threads(), num_running_threads() + 1);
  }
}

BatchReader::~BatchReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  freed_.notify_one();
  thread_.join();
}

const HostBatch* BatchReader::next() {
  std::unique_lock lock(mutex_);
  // The batch handed out before is done with only now.
  const std::uint64_t wanted = num_taken_;
  num_released_ = wanted;
  freed_.notify_one();
  filled_.wait(lock, [&] { return num_filled_ > wanted || ended_; });
  if (num_filled_ > wanted) {
    ++num_taken_;
    return &buffers_[wanted % buffers_.size()].batch;
  }
  if (error_) std::rethrow_exception(error_);
  return nullptr;
}

void BatchReader::release() {
  const std::lock_guard lock(mutex_);
  num_released_ = num_taken_;
  freed_.notify_one();
}

BatchReader::Buffer* BatchReader::wait_for_free() {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [this] { return stop_ || num_filled_ - num_released_ < buffers_.size(); });
  return stop_ ? nullptr : &buffers_[num_filled_ % buffers_.size()];
}

void BatchReader::read_ahead() {
  std::exception_ptr error;
  try {
    read_batches();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
    ended_ = true;
  }
  filled_.notify_one();
}

void BatchReader::read_batches() {
  std::vector<std::byte*> fields(field_bytes_.size());
  std::vector<std::uint32_t> order;
  std::int64_t first_batch = options_.start.batch;
  for (std::int64_t epoch = options_.start.epoch;; ++epoch) {
    if (first_batch < sampler_.num_batches()) sampler_.order_of_epoch(epoch, order);
    for (std::int64_t index = first_batch; index < sampler_.num_batches(); ++index) {
      Buffer* const buffer = wait_for_free();
      if (buffer == nullptr) return;
      const std::int64_t num_samples = sampler_.size_of_batch(index);
      const std::uint32_t* const indices = order.data() + sampler_.begin_of_batch(index);
      for (std::int64_t i = 0; i < num_samples; ++i) {
        for (std::size_t f = 0; f < fields.size(); ++f) fields[f] = buffer->memory[f]->data() + i * field_bytes_[f];
        dataset_.read(indices[i], fields);
      }
      buffer->batch = {buffer->fields, num_samples};
      {
        const std::lock_guard lock(mutex_);
        ++num_filled_;
      }
      filled_.notify_one();
    }
    if (!options_.endless) return;
    first_batch = 0;
  }
}

}  // namespace trainer
