#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/train/executor.h"
#include "engine/train/safetensors.h"

namespace trainer {

/// A tensor that outlives a step, and the name it is saved under.
struct SavedTensor {
  NamedTensor tensor;
  BufferId buffer = -1;
  std::int32_t trainable_parameter = -1;  ///< -1: of something else
};

/// Parameters and running statistics.
std::vector<SavedTensor> model_tensors(const Program& program);
/// The optimizer's state and the loss scale.
std::vector<SavedTensor> optimizer_tensors(const Program& program);

/// All that a run between two steps is beside its TrainingState, and where to read it.
struct SavedTensors {
  using Read = std::function<void(const SavedTensor& saved, std::byte* to)>;
  std::vector<SavedTensor> model, optimizer;
  Read read;
};

/// Those on the device; `executor` must outlive the result.
SavedTensors saved_tensors_of(Executor& executor);

/// The tensors of a run in host memory, while no executor holds them.
class HeldTensors {
 public:
  /// Copies them from the device.
  explicit HeldTensors(Executor& executor);
  HeldTensors(const HeldTensors&) = delete;
  HeldTensors& operator=(const HeldTensors&) = delete;

  /// Copies them to the device, for a program of the same tensors. `executor` has run its load.
  void restore(Executor& executor) const;
  /// To save them from here; valid as long as this is.
  SavedTensors saved_tensors() const;

 private:
  struct Held {
    TensorType type;
    std::vector<std::byte> bytes;
  };
  const std::vector<std::byte>& bytes_of(const SavedTensor& wanted) const;

  std::vector<SavedTensor> model_, optimizer_;
  std::unordered_map<std::string, Held> held_;  ///< by name
};

}  // namespace trainer
