#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/device/communicator.h"
#include "engine/graph/tensor_pieces.h"
#include "engine/train/executor.h"
#include "engine/train/files/safetensors.h"

namespace trainer {

// Note [Orders in files]
// ~~~~~~~~~~~~~~~~~~~~~~
// Files are PyTorch's, so what the device keeps in another order (Parameter::file_order) is brought into that of files
// when it is saved and into the device's when it is loaded; the optimizer's f32 state with its weight. 8-bit moments
// are saved as they are: their blocks run along the device's order and in another one would hold other numbers, so that
// a resumed run would not be the same. Where the orders differ the name says so: "0.weight.first_moment.channels_last".
//
// "0.weight.first_moment" for such a weight was written when devices kept weights as files have them. It is read,
// brought into order and coded anew, which rounds it once more, as every update does.

/// An 8-bit moment that files may have coded in their own order, under another name.
struct FormerMoment {
  std::string name;
  bool is_second = false;
  TensorType weight;  ///< f32, as on the device
  FileOrder order = FileOrder::same;
};

/// Codes anew, in the device's order, a moment that was coded in that of files.
void to_device_order(const FormerMoment& moment, std::byte* bytes);

/// A tensor that outlives a step, and how it is saved; see Note [Orders in files].
struct SavedTensor {
  NamedTensor tensor;  ///< as in files
  TensorType kept;     ///< as on the device, with as many bytes
  FileOrder order = FileOrder::same;
  BufferId buffer = -1;
  std::int32_t trainable_parameter = -1;  ///< -1: of something else
  std::optional<FormerMoment> former{};
};

/// Parameters and running statistics of the model, as it is evaluated and saved: the averages, where there are some.
std::vector<SavedTensor> model_tensors(const Program& program);
/// The same tensors as they are trained on.
std::vector<SavedTensor> trained_tensors(const Program& program);
/// The same of a model that is no program yet: there are no buffers of them.
std::vector<SavedTensor> model_tensors(const Graph& graph);
/// Those of a frozen network that its file has, by their names there.
std::vector<SavedTensor> frozen_tensors(const Program& program, std::int32_t network);
/// The optimizer's state, the loss scale, and of what is averaged the tensors themselves: "fc.weight.unaveraged".
std::vector<SavedTensor> optimizer_tensors(const Program& program);

/// All that a run between two steps is beside its TrainingState, and where to read it, as on the device.
struct SavedTensors {
  /// Reads a piece of a tensor.
  using Read = std::function<void(const SavedTensor& saved, const TensorPiece& piece, std::byte* to)>;
  std::vector<SavedTensor> model, optimizer;
  Read read;
};

/// Those on the device; `executor` must outlive the result. What ranks hold together rank 0 reads, while each of the
/// others calls give_parts(). `ranks`: null where there is one.
SavedTensors saved_tensors_of(Executor& executor, Communicator* ranks = nullptr);
/// Gives rank 0 what it reads of all its saved tensors, in order, through `memory`.
void give_parts(Executor& executor, Communicator* ranks, PieceMemory& memory);

/// The tensors of a run in host memory, while no executor holds them.
class HeldTensors {
 public:
  /// Copies them from the device; what ranks hold together all of them call for alike.
  explicit HeldTensors(Executor& executor, Communicator* ranks = nullptr);
  HeldTensors(const HeldTensors&) = delete;
  HeldTensors& operator=(const HeldTensors&) = delete;

  /// Copies them to the device, for a program of the same tensors. `executor` has run its load.
  void restore(Executor& executor) const;
  /// The same for the program of the next stage, whose model has the same tensors; of the optimizer's state what is
  /// held in the same form and of a parameter that `continues` takes; all else of it is left as it is.
  void hand_on(Executor& executor, const std::function<bool(const std::string& parameter)>& continues) const;
  /// Updates that overflows have skipped so far; nothing where the loss was not scaled.
  std::optional<std::int64_t> num_skipped() const;
  /// Whether a state of the parameter is held that the program has in the same form, so that it can continue; or the
  /// program has none of it.
  bool can_continue(const Program& program, std::size_t parameter) const;
  /// To save them from here; valid as long as this is.
  SavedTensors saved_tensors() const;

 private:
  struct Held {
    TensorType kept;
    std::vector<std::byte> bytes;
  };
  const std::vector<std::byte>& bytes_of(const SavedTensor& wanted) const;

  std::vector<SavedTensor> model_, optimizer_;
  std::unordered_map<std::string, Held> held_;  ///< by name
  std::string loss_scale_;                      ///< its name; empty: there is none
};

}  // namespace trainer
