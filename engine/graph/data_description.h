#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/shape.h"

namespace trainer {

// Note [Fields of a batch]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// A sample is a list of fields: what each input of the model takes, in their order, and behind them the target. What
// holds samples lists their fields in this order: datasets, batches in host memory, the buffers of a routine and those
// that batches are staged in. A training batch that is mixed has a field more, which says how. So that only those who
// make fields (a dataset) and those who read them (a graph) know what they are.

/// What a model takes of a sample, by one of its inputs.
struct InputDescription {
  std::string name = "batch";  ///< of its buffers; one alone is the batch
  TensorType type;             ///< without the batch: u8 (H, W, C) pixels, f32 numbers or i32 indices, of any shape
  /// Normalisation of u8 pixels on the device: (pixel / 255 − mean) / std, one value for each channel.
  std::vector<float> mean, std;
  std::int64_t num_indices = 0;  ///< of i32: all are below it, and none below 0

  friend bool operator==(const InputDescription&, const InputDescription&) = default;
};

/// What a program must know of a dataset before it is compiled; made from file headers or declared in the
/// configuration, never from the samples themselves.
struct DataDescription {
  std::vector<InputDescription> inputs;  ///< at least one
  TensorType target{DType::i32, {}};     ///< of one sample: i32 classes or f32 numbers, of any shape
  std::int64_t num_outputs = 0;          ///< classes, or numbers in a target
  /// Whether training batches are mixed: then they have one more field, behind the targets, of mixed_samples_type
  /// (engine/ops/mixed_sample.h).
  bool mixes_batches = false;
  /// Whether training targets may be classes below 0, which a loss ignores where its ignore_index is that.
  bool has_negative_targets = false;
  std::int64_t num_train = 0;
  std::int64_t num_validation = 0;  ///< 0: no evaluation
  std::int64_t num_held = 0;        ///< that are loaded, whether a part of them is taken or all
  /// That a sample takes in host memory while it is read, before it is one of sample_bytes(); 0: no more than those.
  std::int64_t reading_bytes = 0;
  /// That a thread which reads samples ahead holds, for training and for evaluation, beside these, and how many such
  /// threads are asked for.
  std::int64_t reader_bytes = 0;
  std::int64_t num_readers = 1;
  bool estimates_readers = false;         ///< reader_bytes is an estimate: of images whose files are not there
  std::int64_t reader_library_bytes = 0;  ///< that libraries allocate in such a thread by themselves, about
  std::int64_t cache_bytes = 0;           ///< of host memory that data.cache takes at most
  std::int64_t held_bytes = 0;  ///< of host memory that these take: 0 where they are computed or read when needed

  bool categorical() const { return target.dtype == DType::i32; }
  /// "28×28×1"; of several inputs one after the other.
  std::string sample_text() const;
  /// Of all fields of a sample.
  std::int64_t sample_bytes() const;
  /// Of a thread that reads samples ahead, with what libraries allocate.
  std::int64_t most_reader_bytes() const { return reader_bytes + reader_library_bytes; }

  friend bool operator==(const DataDescription&, const DataDescription&) = default;
};

}  // namespace trainer
