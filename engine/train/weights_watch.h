#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/device/communicator.h"
#include "engine/graph/tensor_pieces.h"
#include "engine/train/executor.h"

namespace trainer {

/// Is shown the numbers of a run's weights between two steps (logging.histograms_every), a piece at a time.
class WeightsWatch {
 public:
  virtual ~WeightsWatch() = default;
  /// The next numbers of a tensor, whose pieces follow each other: "weights/0.weight"; "momentum/0.weight" of what the
  /// optimizer keeps of its gradients in f32, the first moment or the momentum.
  virtual void add(std::int64_t step, const std::string& tag, std::span<const float> numbers) = 0;
  /// All of the step's were shown.
  virtual void finish() = 0;
};

/// Shows them, read as checkpoints read them (Note [Pieces] in graph/tensor_pieces.h): nothing is allocated on the
/// device, and nothing there changes. The executor has nothing queued. Ranks that hold tensors together all call it;
/// `ranks` is null where there is one, `watch` on all but rank 0. Throws DeviceError.
void show_weights(Executor& executor, Communicator* ranks, PieceMemory& memory, std::int64_t step, WeightsWatch* watch);

}  // namespace trainer
