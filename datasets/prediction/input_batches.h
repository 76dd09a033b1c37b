#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "datasets/batch_reader.h"
#include "datasets/prediction/prediction_input.h"
#include "datasets/reader_threads.h"

namespace trainer {

/// Inputs of a model in host memory. A sample whose input has an error is zero, as is what the last batch lacks.
struct InputBatch {
  HostBatch batch;                      ///< num_samples: of its inputs
  std::vector<PredictionInput> inputs;  ///< as many as a batch has; may be swapped for as many others
};

struct InputBatchesOptions {
  std::int64_t batch_size = 1;
  std::size_t num_buffers = 2;  ///< as BatchReaderOptions has them
  int num_workers = 1;
  std::function<std::unique_ptr<HostMemory>(std::int64_t num_bytes)> make_memory = {};
};

/// Reads batches of a stream ahead, in threads of its own, into buffers allocated once. Each thread takes the next
/// input and makes a sample of it, so batches come in the stream's order, whatever the number of threads. What reading
/// an input throws becomes its error.
class InputBatches {
 public:
  /// `stream` outlives it, and is asked by its threads alone from here on.
  InputBatches(InputStream& stream, const TensorType& sample, const InputBatchesOptions& options);
  /// Stops the threads, and waits for them.
  ~InputBatches() = default;
  InputBatches(const InputBatches&) = delete;
  InputBatches& operator=(const InputBatches&) = delete;

  /// The next batch, valid until the following call of this or release(); null behind the last. Rethrows what the
  /// stream threw, after the batches before it.
  InputBatch* next();
  /// The batch that was handed out last is done with.
  void release();

 private:
  struct Buffer {
    std::unique_ptr<HostMemory> memory;
    const std::byte* field = nullptr;
    InputBatch batch;
    std::int64_t num_taken = 0, num_read = 0;  ///< of its inputs, guarded by mutex_
  };

  void stop();
  void work();
  /// The next input, in a place of a batch; null where there is none, or the threads are to stop.
  PredictionInput* take(std::unique_lock<std::mutex>& lock, Buffer*& buffer, std::int64_t& place);
  void read(InputReader& reader, PredictionInput& input, std::byte* sample) const;
  bool is_whole(std::uint64_t batch) const;
  bool is_free(std::uint64_t batch) const { return batch < num_released_ + buffers_.size(); }

  Buffer& buffer_of(std::uint64_t batch) { return buffers_[batch % buffers_.size()]; }
  const Buffer& buffer_of(std::uint64_t batch) const { return buffers_[batch % buffers_.size()]; }

  InputStream& stream_;
  const InputBatchesOptions options_;
  const std::int64_t sample_bytes_;
  std::vector<Buffer> buffers_;  // batch k lies in buffer k mod num_buffers

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  // Guarded by mutex_.
  std::uint64_t filling_ = 0;       ///< the batch that inputs are taken for
  std::uint64_t num_handed_ = 0;    ///< batches that next() has handed out
  std::uint64_t num_released_ = 0;  ///< batches whose buffers may be filled again
  std::int64_t num_inputs_ = 0;
  bool ended_ = false;  ///< the stream has no more
  bool stop_ = false;
  bool failed_ = false;       ///< a thread has ended
  std::exception_ptr error_;  ///< of the stream, or of that thread

  ReaderThreads threads_{[this] { stop(); }};  ///< last: they use everything above
};

}  // namespace trainer
