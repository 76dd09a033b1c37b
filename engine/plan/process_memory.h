#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/program/program.h"

namespace trainer {

/// Note [The process]
/// What a run's process holds of the host's memory beside what its allocator holds, each above 1 MiB with its name:
///
///   program and libraries    when the device was made: measured
///   kernels                  code and threads that the first steps bring in: estimated, see kernel_bytes
///   dataset                  samples and targets, unless they are computed or read from files as they are needed
///   image cache              data.cache: slots and what tells which are filled: Note [Cache of images] in
///                            datasets/image_cache.h
///   staged batches           read ahead: Note [Staged batches]; in an evaluation its batches too; the order of samples
///   image readers            of each thread that decodes and transforms: Note [Memory of readers] in
///                            datasets/reader_memory.h; estimated only where files are not there
///   libwebp                  what it allocates in these threads while it decodes WebP files, estimated
///   offloaded activations    memory.offload
///   tensors between stages   parameters and optimizer state that a stage hands on, of a device with memory of its own
///   packed operands          of products, in oneDNN: DeviceModel::library_bytes, estimated
///   checkpoint writing       a piece of a tensor: Note [Pieces] in engine/graph/tensor_pieces.h; before the first step
///                            the same for weights that are loaded (weights.file)
///
/// On the CPU, whose allocator's memory is the host's too, these and what is reserved and was ever written (Note
/// [Touched pages] in touched_pages.h) are together the most that is resident: VmHWM of /proc/self/status. On a GPU the
/// driver's and CUDA's own memory on the host comes in addition, which nobody tells beforehand.
struct ProcessMemory {
  std::vector<NamedBytes> parts;    ///< none of 0 bytes
  bool includes_allocator = false;  ///< the allocator's memory is the host's
  /// Before there are kernels and an allocator, while a table is read, which takes more than it holds then.
  std::int64_t peak_while_reading = 0;

  /// Sum of the parts.
  std::int64_t beside_allocator() const;
  /// The most that is resident, where the allocator's memory is, of which `touched` bytes are.
  std::int64_t expected_peak(std::int64_t touched) const {
    return std::max(beside_allocator() + touched, peak_while_reading);
  }
};

ProcessMemory process_memory(const Experiment& experiment, const Program& program, const DataDescription& data,
                             const DeviceModel& device);

/// The same of a program that writes texts (engine/program/generation.h): no data, but logits, and pieces of the
/// weights while they are read. What a tokenizer takes is among the program's own where it is there when the device is
/// made.
ProcessMemory text_process_memory(const Program& program, const DeviceModel& device);

/// The same of a program that predicts (engine/program/prediction.h), by inputs of `data`, which says what the threads
/// hold that read them: batches that are read ahead, readers, predictions on their way to numbers.
ProcessMemory prediction_process_memory(const Program& program, const DataDescription& data, const DeviceModel& device);

/// Note [Staged batches]
/// Batches lie in host memory from when they are read until they are copied to the device. Where the copy is done at
/// once, one is enough: it is filled anew while the device computes. Else one is being copied, the next one waits, and
/// a third is filled.
inline int num_staged_batches(const DeviceModel& device) { return device.copies_at_once() ? 1 : 3; }

/// Threads that read samples ahead: as many as the data asks for (DataDescription::num_readers), or fewer, at least
/// one, so that they, the dataset and staged batches are within data.memory.
int num_readers(const Experiment& experiment, const DataDescription& data, const DeviceModel& device);

/// ConfigError where data.memory does not hold what one thread that reads takes.
void check_input_memory(const Experiment& experiment, const DataDescription& data, const DeviceModel& device);

/// Bytes of the largest piece (Note [Pieces] in engine/graph/tensor_pieces.h) in which a program's tensors are saved.
std::int64_t largest_saved_piece(const Program& program);

/// Bytes of the pieces that a rank holds while a checkpoint is written: one, or with checkpoint.sharded, where ranks
/// hold parts, one more, of which it gives others its part.
std::int64_t checkpoint_writing_bytes(const Experiment& experiment, const Program& program);

/// The host memory to leave for a process where the device's memory is the host's: of the parts that it does not hold
/// already those that are known without its program, so not packed operands and offloaded activations, and pieces of
/// their usual size. `dataset_is_loaded`: the dataset is held already. For an experiment with `batch_size: auto`, as it
/// is for batches of one sample.
std::int64_t host_reserve(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                          bool dataset_is_loaded);

}  // namespace trainer
