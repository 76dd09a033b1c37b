#include "engine/train/non_finite_search.h"

#include <algorithm>

#include "engine/graph/tensor_pieces.h"
#include "engine/train/files/float_tensor.h"

namespace trainer {

bool NonFiniteSearch::holds_non_finite(BufferId id) {
  const Buffer& buffer = executor_.program().buffers[id];
  for (const TensorPiece& piece : tensor_pieces(FileOrder::same, whole_type(buffer))) {
    staging_.assign(static_cast<std::size_t>(piece.kept.num_bytes()), std::byte{0});  // also for what others hold
    executor_.read(id, piece.offset, piece.kept.num_bytes(), staging_.data());
    if (!all_finite(piece.kept, staging_.data())) return true;
  }
  return false;
}

bool NonFiniteSearch::search_parameters() {
  const Program& program = executor_.program();
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    if (!program.parameters[i].trainable || !holds_non_finite(program.parameter_buffers[i])) continue;
    result_ = {program.layer_label(program.parameters[i].layer), program.parameters[i].name};
    return true;
  }
  return false;
}

bool NonFiniteSearch::is_input(BufferId buffer) const {
  const auto begin = routine_.fields.begin(), end = begin + static_cast<std::ptrdiff_t>(routine_.num_inputs);
  return std::find(begin, end, buffer) != end;
}

bool NonFiniteSearch::after_call(const OpCall& call, const LiveBuffers&) {
  const Program& program = executor_.program();
  if (found() || (call.phase != Phase::forward && call.phase != Phase::eval)) return runs_on_;
  for (const BufferId input : call.inputs) {
    if (!is_input(input) || !holds_non_finite(input)) continue;
    result_ = {"input", program.buffers[input].name};
    return runs_on_;
  }
  for (const BufferId output : call.outputs) {
    if (!holds_non_finite(output)) continue;
    result_ = {program.layer_label(call.layer), program.buffers[output].name};
    return runs_on_;
  }
  return true;
}

}  // namespace trainer
