#include "engine/program/started_calls.h"

namespace trainer {

std::size_t StartedCalls::start(Op op, std::vector<BufferId> inputs, std::vector<BufferId> outputs, LayerId layer,
                                Phase phase) {
  Call& call = calls_.emplace_back();
  call.operands = inputs;
  call.operands.insert(call.operands.end(), outputs.begin(), outputs.end());
  const BufferId workspace = scheduler_.append_unreleased_call(routine_, started(std::move(op)), std::move(inputs),
                                                               std::move(outputs), layer, phase);
  if (workspace >= 0) release_behind_last(workspace, layer);
  return calls_.size() - 1;
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
  const auto num_left = static_cast<std::int64_t>(calls_.size() - 1 - number);
  scheduler_.append_call(routine_, finish_exchange_op(types, num_left), std::move(operands), {}, layer, phase);
  for (; num_finished_ <= number; ++num_finished_)
    for (const auto& [buffer, of_layer] : calls_[num_finished_].released)
      routine_.instructions.push_back({Instruction::Kind::release, buffer, of_layer, phase});
}

}  // namespace trainer
