#include "datasets/batch_reader.h"

#include <algorithm>

#include "engine/errors.h"

namespace trainer {

BatchReader::BatchReader(const Dataset& dataset, const Sampler& sampler, const BatchReaderOptions& options)
    : dataset_(dataset), sampler_(sampler), options_(options), buffers_(options.num_buffers), position_(options.start) {
  for (const TensorType& type : dataset.input_types()) field_bytes_.push_back(type.num_bytes());
  field_bytes_.push_back(dataset.target_type().num_bytes());
  require_internal(options.num_buffers >= 1 && options.num_workers >= 1, "a reader has a buffer and who fills it");
  require_internal(sampler.num_samples() == dataset.size(), "a sampler counts the samples of its dataset");
  require_internal(!options.endless || sampler.num_batches() > 0, "an endless reader has batches");
  // A part of a batch may have no samples, and memory has a byte.
  const std::int64_t batch_size = std::max<std::int64_t>(sampler.batch_size(), 1);
  const auto make_memory = [&](std::int64_t num_bytes) {
    return make_batch_memory(options.make_memory, num_bytes, "a batch of samples that is read ahead");
  };
  for (Buffer& buffer : buffers_) {
    buffer.samples.reserve(static_cast<std::size_t>(batch_size));
    for (const std::int64_t num_bytes : field_bytes_) {
      buffer.memory.push_back(make_memory(batch_size * num_bytes));
      buffer.fields.push_back(buffer.memory.back()->data());
    }
    if (!options.mixing) continue;
    buffer.memory.push_back(make_memory(mixed_samples_type(batch_size).num_bytes()));
    buffer.fields.push_back(buffer.memory.back()->data());
  }
  threads_.start(options_.num_workers, [this] { work(); });
}

void BatchReader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  freed_.notify_all();
}

bool BatchReader::is_complete(std::uint64_t batch) const {
  const Buffer& buffer = buffer_of(batch);
  return batch < num_opened_ && buffer.num_read == static_cast<std::int64_t>(buffer.samples.size());
}

const HostBatch* BatchReader::next() {
  std::unique_lock lock(mutex_);
  // The batch handed out before is done with only now.
  const std::uint64_t wanted = num_taken_;
  num_released_ = wanted;
  freed_.notify_all();
  const auto is_decided = [&] { return is_complete(wanted) || (ended_ && wanted >= num_opened_); };
  filled_.wait(lock, is_decided);
  if (wanted >= num_opened_) {
    if (error_) std::rethrow_exception(error_);
    return nullptr;
  }
  Buffer& buffer = buffer_of(wanted);
  if (buffer.error) std::rethrow_exception(buffer.error);
  ++num_taken_;
  return &buffer.batch;
}

void BatchReader::release() {
  const std::lock_guard lock(mutex_);
  num_released_ = num_taken_;
  freed_.notify_all();
}

bool BatchReader::open_next_batch() {
  if (position_.batch >= sampler_.num_batches()) {
    // A start behind the last batch of an epoch is the start of the next one.
    if (!options_.endless) return false;
    position_ = {position_.epoch + 1, 0};
  }
  if (order_epoch_ != position_.epoch) sampler_.order_of_epoch(position_.epoch, order_);
  order_epoch_ = position_.epoch;
  Buffer& buffer = buffer_of(num_opened_);
  const auto begin = order_.begin() + sampler_.begin_of_batch(position_.batch);
  const std::int64_t num_samples = sampler_.size_of_batch(position_.batch);
  buffer.samples.assign(begin, begin + num_samples);
  buffer.position = position_;
  buffer.num_taken = buffer.num_read = 0;
  buffer.first_failed = -1;
  buffer.error = nullptr;
  buffer.batch = {buffer.fields, num_samples};
  ++num_opened_;
  ++position_.batch;
  if (num_samples == 0) filled_.notify_one();  // there is nothing to read
  return true;
}

BatchReader::Share BatchReader::take_share(std::unique_lock<std::mutex>& lock) {
  while (!stop_) {
    // Only the batch opened last has samples that nobody has taken.
    if (num_opened_ > 0) {
      Buffer& newest = buffer_of(num_opened_ - 1);
      const auto num_samples = static_cast<std::int64_t>(newest.samples.size());
      if (newest.num_taken < num_samples) {
        const std::int64_t begin = newest.num_taken;
        newest.num_taken = options_.num_workers == 1 ? num_samples : begin + 1;
        return {&newest, begin, newest.num_taken};
      }
    }
    if (ended_) return {};
    if (num_opened_ - num_released_ >= buffers_.size()) {
      freed_.wait(lock);
    } else if (!open_next_batch()) {
      ended_ = true;
      filled_.notify_one();
    }
  }
  return {};
}

void BatchReader::read_share(SampleReader& samples, const Share& share, std::vector<std::byte*>& fields) {
  std::exception_ptr error;
  std::int64_t position = share.begin;
  try {
    for (; position < share.end; ++position) {
      for (std::size_t f = 0; f < fields.size(); ++f)
        fields[f] = share.buffer->memory[f]->data() + position * field_bytes_[f];
      samples.read(share.buffer->position.epoch, share.buffer->samples[static_cast<std::size_t>(position)], fields);
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  Buffer& buffer = *share.buffer;
  if (error && (buffer.first_failed < 0 || position < buffer.first_failed)) {
    buffer.first_failed = position;
    buffer.error = error;
  }
  if (error) ended_ = true;  // batches behind this one are not handed out
  buffer.num_read += share.end - share.begin;
  if (buffer.num_read < static_cast<std::int64_t>(buffer.samples.size())) return;
  if (options_.mixing && !buffer.error) mix(buffer);
  filled_.notify_one();
}

/// A batch whose samples have been read.
void BatchReader::mix(Buffer& buffer) const {
  const MixedSample drawn = options_.mixing->draw(buffer.position.epoch, sampler_.whole_of(buffer.position.batch));
  const std::size_t num_samples = buffer.samples.size(), num_inputs = dataset_.input_types().size();
  std::byte* const targets = buffer.memory[num_inputs]->data();
  std::span<const std::int32_t> classes;
  if (dataset_.categorical()) {
    classes = {reinterpret_cast<const std::int32_t*>(targets), num_samples};
  } else {
    const std::int64_t numbers = dataset_.target_type().num_elements();
    BatchMixing::mix(drawn.share, numbers,
                     {reinterpret_cast<float*>(targets), num_samples * static_cast<std::size_t>(numbers)});
  }
  BatchMixing::pair(drawn, classes, {reinterpret_cast<MixedSample*>(buffer.memory.back()->data()), num_samples});
}

void BatchReader::work() {
  try {
    const std::unique_ptr<SampleReader> samples = dataset_.make_reader();
    std::vector<std::byte*> fields(field_bytes_.size());
    for (;;) {
      Share share;
      {
        std::unique_lock lock(mutex_);
        share = take_share(lock);
      }
      if (share.buffer == nullptr) return;
      read_share(*samples, share, fields);
    }
  } catch (...) {
    // A thread's own memory: what was taken has been read, and what nobody takes is not waited for.
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    ended_ = true;
    filled_.notify_one();
    freed_.notify_all();
  }
}

}  // namespace trainer
