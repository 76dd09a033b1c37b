#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/sampler.h"
#include "engine/device/device.h"

namespace trainer {

/// A batch in host memory.
struct HostBatch {
  /// (num_samples, shape of the field) each, 64-byte aligned: Note [Fields of a batch] in
  /// engine/graph/data_description.h.
  std::span<const std::byte* const> fields;
  std::int64_t num_samples = 0;
};

/// Where reading starts: a batch of an epoch, both from 0.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  ///< may be num_batches(): the start of the next epoch

  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

struct BatchReaderOptions {
  bool endless = true;       ///< go on with the next epoch; else end after the first
  BatchPosition start = {};  ///< the first batch to hand out
  /// Of these one is with the consumer, until next() or release(), and the others are filled ahead. With one alone
  /// nothing is read ahead but between release() and next().
  std::size_t num_buffers = 3;
  /// Where batches lie, such as Device::make_host_memory; AlignedMemory by default.
  std::function<std::unique_ptr<HostMemory>(std::int64_t num_bytes)> make_memory = {};
};

/// Reads batches ahead in a thread of its own, into buffers allocated once. The dataset outlives the reader.
class BatchReader {
 public:
  BatchReader(const Dataset& dataset, const Sampler& sampler, const BatchReaderOptions& options);
  /// Stops the thread, whatever it is doing, and waits for it.
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// The next batch, valid until the following call of this or release(); null after the last of a single pass. Waits
  /// only where the thread is behind. Rethrows what reading threw, after the batches before it.
  const HostBatch* next();
  /// The batch that was handed out last is done with: its memory may be filled anew.
  void release();

  const Sampler& sampler() const { return sampler_; }

 private:
  struct Buffer {
    std::vector<std::unique_ptr<HostMemory>> memory;  // by field
    std::vector<const std::byte*> fields;             // where each begins
    HostBatch batch;
  };

  void read_ahead();
  void read_batches();
  /// Waits for a free buffer; null when the reader is to stop.
  Buffer* wait_for_free();

  const Dataset& dataset_;
  const Sampler sampler_;
  const BatchReaderOptions options_;
  std::vector<std::int64_t> field_bytes_;  // of one sample
  std::vector<Buffer> buffers_;

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  // Guarded by mutex_. Batch k of the reader lies in buffer k mod num_buffers.
  std::uint64_t num_filled_ = 0;    ///< batches that the thread has finished
  std::uint64_t num_taken_ = 0;     ///< batches that next() has handed out
  std::uint64_t num_released_ = 0;  ///< batches whose buffers may be filled again
  bool ended_ = false;              ///< the thread reads no more
  bool stop_ = false;
  std::exception_ptr error_;

  std::thread thread_;  ///< last: it uses everything above
};

}  // namespace trainer
