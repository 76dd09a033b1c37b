#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "datasets/batch_mixing.h"
#include "datasets/dataset.h"
#include "datasets/reader_threads.h"
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

/// Where reading starts: a batch of an epoch, as its sampler counts them, both from 0.
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
  /// Threads that read; with several each takes the next sample. What is read does not depend on it.
  int num_workers = 1;
  /// Where batches lie, such as Device::make_host_memory; AlignedMemory by default.
  std::function<std::unique_ptr<HostMemory>(std::int64_t num_bytes)> make_memory = {};
  /// Of training: then batches have a field more, which says how they are mixed; numbers to predict are mixed already.
  std::optional<BatchMixing> mixing = {};
};

/// Reads batches ahead in threads of its own, into buffers allocated once. The dataset outlives the reader.
///
/// Note [Workers]
/// Batches are opened in their order: their samples are known then. A worker takes samples of the oldest opened batch
/// that has any left, a whole batch where it is alone, and opens the next one where none has and a buffer is free. A
/// batch is handed out when all of its samples have been read, so what comes out is the same whatever the number of
/// workers. The failure that is told is that of the first sample that fails, in the order of the samples.
class BatchReader {
 public:
  BatchReader(const Dataset& dataset, const Sampler& sampler, const BatchReaderOptions& options);
  /// Stops the threads, whatever they are doing, and waits for them.
  ~BatchReader() = default;
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// The next batch, valid until the following call of this or release(); null after the last of a single pass. Waits
  /// only where the threads are behind. Rethrows what reading threw, after the batches before it.
  const HostBatch* next();
  /// The batch that was handed out last is done with: its memory may be filled anew.
  void release();

  const Sampler& sampler() const { return sampler_; }

 private:
  struct Buffer {
    std::vector<std::unique_ptr<HostMemory>> memory;  // by field
    std::vector<const std::byte*> fields;             // where each begins
    HostBatch batch;
    // Guarded by mutex_.
    std::vector<std::uint32_t> samples;  ///< of the batch that it is opened for
    BatchPosition position;
    std::int64_t num_taken = 0, num_read = 0;  ///< of its samples
    std::int64_t first_failed = -1;            ///< position of the first sample that failed; -1: none has
    std::exception_ptr error;                  ///< what that threw
  };
  /// Samples of one batch, for one worker.
  struct Share {
    Buffer* buffer = nullptr;
    std::int64_t begin = 0, end = 0;
  };

  void stop();
  void work();
  /// Waits for samples to read; none when the reader is to stop or has none left.
  Share take_share(std::unique_lock<std::mutex>& lock);
  bool is_complete(std::uint64_t batch) const;
  bool open_next_batch();
  void mix(Buffer& buffer) const;
  void read_share(SampleReader& samples, const Share& share, std::vector<std::byte*>& fields);

  Buffer& buffer_of(std::uint64_t batch) { return buffers_[batch % buffers_.size()]; }
  const Buffer& buffer_of(std::uint64_t batch) const { return buffers_[batch % buffers_.size()]; }

  const Dataset& dataset_;
  const Sampler sampler_;
  const BatchReaderOptions options_;
  std::vector<std::int64_t> field_bytes_;  // of one sample, of the dataset's fields
  std::vector<Buffer> buffers_;            // batch k of the reader lies in buffer k mod num_buffers

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  // Guarded by mutex_.
  std::uint64_t num_opened_ = 0;      ///< batches whose samples are known
  std::uint64_t num_taken_ = 0;       ///< batches that next() has handed out
  std::uint64_t num_released_ = 0;    ///< batches whose buffers may be filled again
  BatchPosition position_;            ///< of the batch that is opened next
  std::vector<std::uint32_t> order_;  ///< of position_'s epoch, where order_epoch_ is that
  std::int64_t order_epoch_ = -1;
  bool ended_ = false;  ///< no batch is opened any more
  bool stop_ = false;
  std::exception_ptr error_;  ///< of a thread, beside those of samples

  ReaderThreads threads_{[this] { stop(); }};  ///< last: they use everything above
};

}  // namespace trainer
