#include "datasets/prediction/input_batches.h"

#include <algorithm>
#include <cstring>

#include "engine/errors.h"

namespace trainer {

InputBatches::InputBatches(InputStream& stream, const TensorType& sample, const InputBatchesOptions& options)
    : stream_(stream), options_(options), sample_bytes_(sample.num_bytes()), buffers_(options.num_buffers) {
  require_internal(options.num_buffers >= 1 && options.num_workers >= 1 && options.batch_size >= 1,
                   "batches of inputs have room, and who fills them");
  for (Buffer& buffer : buffers_) {
    buffer.memory = make_batch_memory(options.make_memory, options.batch_size * sample_bytes_,
                                      "a batch of inputs that is read ahead");
    buffer.field = buffer.memory->data();
    buffer.batch.inputs.resize(static_cast<std::size_t>(options.batch_size));
  }
  threads_.start(options_.num_workers, [this] { work(); });
}

void InputBatches::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  freed_.notify_all();
}

bool InputBatches::is_whole(std::uint64_t batch) const {
  const Buffer& buffer = buffer_of(batch);
  const bool is_taken = batch < filling_ || (ended_ && batch == filling_ && buffer.num_taken > 0);
  return is_taken && buffer.num_read == buffer.num_taken;
}

InputBatch* InputBatches::next() {
  std::unique_lock lock(mutex_);
  // The batch handed out before is done with only now.
  const std::uint64_t wanted = num_handed_;
  num_released_ = wanted;
  freed_.notify_all();
  const auto is_over = [&] {
    return ended_ && (wanted > filling_ || (wanted == filling_ && buffer_of(wanted).num_taken == 0));
  };
  filled_.wait(lock, [&] { return failed_ || is_whole(wanted) || is_over(); });
  if (failed_ || is_over()) {
    if (error_) std::rethrow_exception(error_);
    return nullptr;
  }
  Buffer& buffer = buffer_of(wanted);
  ++num_handed_;
  buffer.batch.batch = {{&buffer.field, 1}, buffer.num_taken};
  std::memset(buffer.memory->data() + buffer.num_taken * sample_bytes_, 0,
              static_cast<std::size_t>((options_.batch_size - buffer.num_taken) * sample_bytes_));
  return &buffer.batch;
}

void InputBatches::release() {
  const std::lock_guard lock(mutex_);
  num_released_ = num_handed_;
  freed_.notify_all();
}

PredictionInput* InputBatches::take(std::unique_lock<std::mutex>& lock, Buffer*& buffer, std::int64_t& place) {
  freed_.wait(lock, [&] { return stop_ || ended_ || is_free(filling_); });
  if (stop_ || ended_) return nullptr;
  buffer = &buffer_of(filling_);
  // The first input of a batch: its buffer was another's.
  if (buffer->num_taken == options_.batch_size) buffer->num_taken = buffer->num_read = 0;
  place = buffer->num_taken;
  PredictionInput& input = buffer->batch.inputs[static_cast<std::size_t>(place)];
  input.restart(num_inputs_);
  bool is_there = false;
  try {
    is_there = stream_.next(input);
  } catch (...) {
    error_ = std::current_exception();
  }
  if (!is_there) {
    ended_ = true;
    filled_.notify_all();
    freed_.notify_all();
    return nullptr;
  }
  ++num_inputs_;
  if (++buffer->num_taken == options_.batch_size) ++filling_;
  return &input;
}

void InputBatches::read(InputReader& reader, PredictionInput& input, std::byte* sample) const {
  if (input.error.empty()) {
    try {
      return reader.read(input, sample);
    } catch (const DataError& error) {
      input.error = error.what();
    } catch (const ConfigError& error) {
      input.error = error.what();
    } catch (const std::bad_alloc&) {
      input.error = input.name + ": the system has no memory left to read it";
    }
  }
  std::memset(sample, 0, static_cast<std::size_t>(sample_bytes_));
}

void InputBatches::work() {
  std::unique_lock lock(mutex_, std::defer_lock);
  try {
    const std::unique_ptr<InputReader> reader = stream_.make_reader();
    lock.lock();
    while (true) {
      Buffer* buffer = nullptr;
      std::int64_t place = 0;
      PredictionInput* const input = take(lock, buffer, place);
      if (input == nullptr) return;
      lock.unlock();
      read(*reader, *input, buffer->memory->data() + place * sample_bytes_);
      lock.lock();
      ++buffer->num_read;
      filled_.notify_all();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    error_ = std::current_exception();
    ended_ = failed_ = true;
    filled_.notify_all();
    freed_.notify_all();
  }
}

}  // namespace trainer
