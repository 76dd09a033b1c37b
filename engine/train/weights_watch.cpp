#include "engine/train/weights_watch.h"

#include <algorithm>
#include <vector>

#include "engine/half.h"
#include "engine/train/files/saved_tensors.h"

namespace trainer {
namespace {

/// Numbers at a time, so that the host's memory does not grow by it.
constexpr std::size_t most_widened = std::size_t{16} << 10;

struct WatchedTensor {
  std::string tag;
  SavedTensor saved;
};

/// Of what is trained.
std::vector<WatchedTensor> watched_tensors(const Program& program) {
  std::vector<WatchedTensor> tensors;
  for (SavedTensor& saved : trained_tensors(program))
    if (saved.trainable_parameter >= 0) tensors.push_back({"weights/" + saved.tensor.name, std::move(saved)});
  for (std::size_t i = 0; i < program.optimizer_buffers.size(); ++i) {
    const BufferId first = program.optimizer_buffers[i].first;
    if (first < 0) continue;
    const TensorType& type = whole_type(program.buffers[first]);
    if (type.dtype != DType::f32) continue;
    tensors.push_back({"momentum/" + program.parameters[i].name,
                       {.tensor = {program.buffers[first].name, type}, .kept = type, .buffer = first}});
  }
  return tensors;
}

}  // namespace

void show_weights(Executor& executor, Communicator* ranks, PieceMemory& memory, std::int64_t step,
                  WeightsWatch* watch) {
  const Program& program = executor.program();
  const bool leads = ranks == nullptr || ranks->rank() == 0;
  const SavedTensors tensors = saved_tensors_of(executor, ranks);
  std::vector<float> numbers(most_widened);
  for (const auto& [tag, saved] : watched_tensors(program)) {
    if (!leads && !program.buffers[saved.buffer].part) continue;
    for (const TensorPiece& piece : tensor_pieces(saved.order, saved.kept)) {
      require_internal(piece.kept.num_bytes() <= memory.num_bytes(), "there is room for the largest piece");
      tensors.read(saved, piece, memory.data());
      if (watch == nullptr) continue;
      const std::size_t num_bytes = size_of(piece.kept.dtype);
      const auto count = static_cast<std::size_t>(piece.kept.num_elements());
      for (std::size_t begin = 0; begin < count; begin += most_widened) {
        const std::size_t length = std::min(most_widened, count - begin);
        widen(piece.kept.dtype, memory.data() + begin * num_bytes, numbers.data(), static_cast<std::int64_t>(length));
        watch->add(step, tag, std::span(numbers).first(length));
      }
    }
  }
  if (watch != nullptr) watch->finish();
}

}  // namespace trainer
