#include "engine/train/saved_tensors.h"

#include <cstring>

namespace trainer {

std::vector<SavedTensor> model_tensors(const Program& program) {
  std::vector<SavedTensor> tensors;
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const Parameter& parameter = program.parameters[i];
    tensors.push_back({{parameter.name, parameter.type},
                       program.parameter_buffers[i],
                       parameter.trainable ? static_cast<std::int32_t>(i) : -1});
  }
  return tensors;
}

std::vector<SavedTensor> optimizer_tensors(const Program& program) {
  std::vector<SavedTensor> tensors;
  for (const OptimizerBuffers& pair : program.optimizer_buffers) {
    for (const BufferId id : {pair.first, pair.second}) {
      if (id >= 0) tensors.push_back({{program.buffers[id].name, program.buffers[id].type}, id, -1});
    }
  }
  if (const BufferId scale = program.loss_scale; scale >= 0)
    tensors.push_back({{program.buffers[scale].name, program.buffers[scale].type}, scale, -1});
  return tensors;
}

SavedTensors saved_tensors_of(Executor& executor) {
  return {model_tensors(executor.program()), optimizer_tensors(executor.program()),
          [&executor](const SavedTensor& saved, std::byte* to) { executor.read(saved.buffer, to); }};
}

HeldTensors::HeldTensors(Executor& executor)
    : model_(model_tensors(executor.program())), optimizer_(optimizer_tensors(executor.program())) {
  for (const std::vector<SavedTensor>* tensors : {&model_, &optimizer_}) {
    for (const SavedTensor& saved : *tensors) {
      Held& held = held_[saved.tensor.name];
      held.type = saved.tensor.type;
      held.bytes.resize(static_cast<std::size_t>(saved.tensor.type.num_bytes()));
      executor.read(saved.buffer, held.bytes.data());
    }
  }
}

void HeldTensors::restore(Executor& executor) const {
  const Program& program = executor.program();
  const std::vector<SavedTensor> model = model_tensors(program), optimizer = optimizer_tensors(program);
  require_internal(model.size() == model_.size() && optimizer.size() == optimizer_.size(),
                   "what a run goes on with has the tensors it had");
  for (const std::vector<SavedTensor>* tensors : {&model, &optimizer})
    for (const SavedTensor& saved : *tensors) executor.write(saved.buffer, bytes_of(saved).data());
}

SavedTensors HeldTensors::saved_tensors() const {
  return {model_, optimizer_, [this](const SavedTensor& saved, std::byte* to) {
            const std::vector<std::byte>& bytes = bytes_of(saved);
            std::memcpy(to, bytes.data(), bytes.size());
          }};
}

const std::vector<std::byte>& HeldTensors::bytes_of(const SavedTensor& wanted) const {
  const auto found = held_.find(wanted.tensor.name);
  require_internal(found != held_.end() && found->second.type == wanted.tensor.type,
                   "what a run goes on with has the tensors it had");
  return found->second.bytes;
}

}  // namespace trainer
