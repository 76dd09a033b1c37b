#include "engine/program/started_calls.h"

namespace trainer {

std::size_t StartedCalls::start(Op op, std::vector<BufferId> inputs, std::vector<BufferId> outputs, LayerId layer,
                                Phase phase) {
  Call& call = calls_.emplace_back();
  call.operands = inputs;
  call.operands.insert(call.operands.end(), outputs.begin(), outputs.end());
  op = started(std::move(op));
  const BufferId workspace = workspace_for(op, phase);
  scheduler_.append_run(routine_, std::move(op), std::move(inputs), std::move(outputs), workspace, layer, phase);
  return calls_.size() - 1;
}

BufferId StartedCalls::workspace_for(const Op& op, Phase phase) {
  const std::int64_t num_bytes = scheduler_.workspace_bytes(op);
  if (num_bytes == 0) return -1;
  if (workspace_ < 0)
    workspace_ = scheduler_.add_buffer("ranks.workspace", no_layer, Category::communication, {DType::u8, {num_bytes}});
  Buffer& buffer = program_.buffers[static_cast<std::size_t>(workspace_)];
  if (num_bytes > buffer.num_bytes) {
    buffer.type.shape = {num_bytes};
    buffer.num_bytes = num_bytes;
  }
  if (!std::exchange(has_workspace_, true))
    routine_.instructions.push_back({Instruction::Kind::allocate, workspace_, no_layer, phase});
  return workspace_;
}

void StartedCalls::finish(std::size_t number, LayerId layer, Phase phase) {
  if (number < num_finished_) return;
  std::vector<BufferId> operands;
  std::vector<TensorType> types;
  for (std::size_t i = num_finished_; i <= number; ++i) {
    for (const BufferId operand : calls_[i].operands) {
      operands.push_back(operand);
      types.push_back(program_.buffers[operand].type);
    }
  }
  scheduler_.append_call(routine_, finish_exchange_op(types), std::move(operands), {}, layer, phase);
  for (; num_finished_ <= number; ++num_finished_)
    for (const auto& [buffer, of_layer] : calls_[num_finished_].released)
      routine_.instructions.push_back({Instruction::Kind::release, buffer, of_layer, phase});
  if (num_finished_ == calls_.size() && std::exchange(has_workspace_, false))
    routine_.instructions.push_back({Instruction::Kind::release, workspace_, no_layer, phase});
}

}  // namespace trainer
