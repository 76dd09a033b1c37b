#include "engine/train/files/saved_tensors.h"

#include <cstring>

#include "engine/ops/loss_scale.h"
#include "engine/ops/moment_codes.h"
#include "engine/ops/optimizer_update.h"
#include "engine/train/shared_reads.h"

namespace trainer {

namespace {

SavedTensor saved_in_order(const std::string& name, const TensorType& kept, FileOrder order, BufferId buffer) {
  return {
      .tensor = {name, {kept.dtype, file_shape(order, kept.shape)}}, .kept = kept, .order = order, .buffer = buffer};
}

SavedTensor saved_parameter(const Parameter& parameter, std::size_t index, const std::string& name, BufferId buffer) {
  SavedTensor saved = saved_in_order(name, parameter.type, parameter.file_order, buffer);
  if (parameter.trainable) saved.trainable_parameter = static_cast<std::int32_t>(index);
  return saved;
}

/// `buffer_of` takes the parameter's index.
template <typename BufferOf>
std::vector<SavedTensor> tensors_of_model(const std::vector<Parameter>& parameters, const BufferOf& buffer_of) {
  std::vector<SavedTensor> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!parameters[i].is_frozen())
      tensors.push_back(saved_parameter(parameters[i], i, parameters[i].name, buffer_of(i)));
  return tensors;
}

/// What the optimizer keeps for a parameter.
SavedTensor saved_state(const Program& program, const Parameter& parameter, BufferId buffer, bool is_second) {
  const std::string& name = program.buffers[buffer].name;
  const TensorType& type = whole_type(program.buffers[buffer]);
  if (type.dtype != DType::u8) return saved_in_order(name, type, parameter.file_order, buffer);
  SavedTensor saved = saved_in_order(name, type, FileOrder::same, buffer);
  const TensorType weight{DType::f32, parameter.type.shape};
  if (!is_in_file_order(parameter.file_order, weight.shape)) {
    saved.tensor.name += ".channels_last";
    saved.former = FormerMoment{name, is_second, weight, parameter.file_order};
  }
  return saved;
}

}  // namespace

void to_device_order(const FormerMoment& moment, std::byte* bytes) {
  const std::int64_t count = moment.weight.num_elements();
  auto* const codes = reinterpret_cast<std::uint8_t*>(bytes);
  auto* const largest = reinterpret_cast<float*>(bytes + moment_code_bytes(count));
  std::vector<float> values(static_cast<std::size_t>(count));
  (moment.is_second ? read_second_moment : read_first_moment)(codes, largest, values.data(), count);
  to_device_order(moment.order, moment.weight, reinterpret_cast<std::byte*>(values.data()));
  (moment.is_second ? write_second_moment : write_first_moment)(values.data(), codes, largest, count);
}

std::vector<SavedTensor> model_tensors(const Program& program) {
  return tensors_of_model(program.parameters, [&](std::size_t i) { return program.model_buffer(i); });
}

std::vector<SavedTensor> trained_tensors(const Program& program) {
  return tensors_of_model(program.parameters, [&](std::size_t i) { return program.parameter_buffers[i]; });
}

std::vector<SavedTensor> model_tensors(const Graph& graph) {
  return tensors_of_model(graph.parameters, [](std::size_t) { return BufferId{-1}; });
}

std::vector<SavedTensor> frozen_tensors(const Program& program, std::int32_t network) {
  std::vector<SavedTensor> tensors;
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const Parameter& parameter = program.parameters[i];
    if (parameter.network != network || !parameter.constants.empty()) continue;
    tensors.push_back(
        saved_in_order(parameter.network_name, parameter.type, parameter.file_order, program.parameter_buffers[i]));
  }
  return tensors;
}

std::vector<SavedTensor> optimizer_tensors(const Program& program) {
  std::vector<SavedTensor> tensors;
  for (std::size_t i = 0; i < program.optimizer_buffers.size(); ++i) {
    const OptimizerBuffers& state = program.optimizer_buffers[i];
    if (state.first >= 0) tensors.push_back(saved_state(program, program.parameters[i], state.first, false));
    if (state.second >= 0) tensors.push_back(saved_state(program, program.parameters[i], state.second, true));
  }
  for (std::size_t i = 0; i < program.average_buffers.size(); ++i)
    if (program.average_buffers[i] >= 0)
      tensors.push_back(saved_parameter(program.parameters[i], i, program.parameters[i].name + ".unaveraged",
                                        program.parameter_buffers[i]));
  if (const BufferId scale = program.loss_scale; scale >= 0)
    tensors.push_back(saved_in_order(program.buffers[scale].name, program.buffers[scale].type, FileOrder::same, scale));
  return tensors;
}

SavedTensors saved_tensors_of(Executor& executor, Communicator* ranks) {
  return {model_tensors(executor.program()), optimizer_tensors(executor.program()),
          [&executor, ranks](const SavedTensor& saved, const TensorPiece& piece, std::byte* to) {
            read_shared(executor, ranks, saved.buffer, piece.offset, piece.kept.num_bytes(), to, /*receiver=*/0);
          }};
}

void give_parts(Executor& executor, Communicator* ranks, PieceMemory& memory) {
  const Program& program = executor.program();
  if (!has_parts(program)) return;
  const SavedTensors tensors = saved_tensors_of(executor, ranks);
  for (const std::vector<SavedTensor>* list : {&tensors.model, &tensors.optimizer})
    for (const SavedTensor& saved : *list) {
      if (!program.buffers[saved.buffer].part) continue;
      for (const TensorPiece& piece : tensor_pieces(saved.order, saved.kept)) {
        require_internal(piece.kept.num_bytes() <= memory.num_bytes(), "there is room for the largest piece");
        tensors.read(saved, piece, memory.data());
      }
    }
}

HeldTensors::HeldTensors(Executor& executor, Communicator* ranks)
    : model_(model_tensors(executor.program())), optimizer_(optimizer_tensors(executor.program())) {
  for (const std::vector<SavedTensor>* tensors : {&model_, &optimizer_}) {
    for (const SavedTensor& saved : *tensors) {
      Held& held = held_[saved.tensor.name];
      held.kept = saved.kept;
      held.bytes.resize(static_cast<std::size_t>(saved.kept.num_bytes()));
      read_shared(executor, ranks, saved.buffer, 0, saved.kept.num_bytes(), held.bytes.data(), all_receive);
    }
  }
  const Program& program = executor.program();
  if (program.loss_scale >= 0) loss_scale_ = program.buffers[program.loss_scale].name;
}

std::optional<std::int64_t> HeldTensors::num_skipped() const {
  if (loss_scale_.empty()) return std::nullopt;
  LossScaleState scale{};
  std::memcpy(scale.data(), held_.at(loss_scale_).bytes.data(), sizeof(scale));
  return static_cast<std::int64_t>(scale[loss_scale_skipped]);
}

void HeldTensors::restore(Executor& executor) const {
  const Program& program = executor.program();
  const std::vector<SavedTensor> model = model_tensors(program), optimizer = optimizer_tensors(program);
  require_internal(model.size() == model_.size() && optimizer.size() == optimizer_.size(),
                   "what a run goes on with has the tensors it had");
  for (const std::vector<SavedTensor>* tensors : {&model, &optimizer})
    for (const SavedTensor& saved : *tensors) executor.write(saved.buffer, bytes_of(saved).data());
}

bool HeldTensors::can_continue(const Program& program, std::size_t parameter) const {
  const OptimizerBuffers& state = program.optimizer_buffers[parameter];
  for (const auto& [buffer, is_second] : {std::pair{state.first, false}, std::pair{state.second, true}}) {
    if (buffer < 0) continue;
    const SavedTensor saved = saved_state(program, program.parameters[parameter], buffer, is_second);
    const auto found = held_.find(saved.tensor.name);
    if (found == held_.end() || !(found->second.kept == saved.kept)) return false;
  }
  return true;
}

void HeldTensors::hand_on(Executor& executor,
                          const std::function<bool(const std::string& parameter)>& continues) const {
  const Program& program = executor.program();
  for (const SavedTensor& saved : trained_tensors(program)) executor.write(saved.buffer, bytes_of(saved).data());
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    if (!continues(program.parameters[p].name) || !can_continue(program, p)) continue;
    const OptimizerBuffers& state = program.optimizer_buffers[p];
    for (const auto& [buffer, is_second] : {std::pair{state.first, false}, std::pair{state.second, true}})
      if (buffer >= 0)
        executor.write(buffer, bytes_of(saved_state(program, program.parameters[p], buffer, is_second)).data());
  }
  if (const BufferId scale = program.loss_scale; scale >= 0)
    if (const auto found = held_.find(program.buffers[scale].name); found != held_.end())
      executor.write(scale, found->second.bytes.data());
}

SavedTensors HeldTensors::saved_tensors() const {
  return {model_, optimizer_, [this](const SavedTensor& saved, const TensorPiece& piece, std::byte* to) {
            std::memcpy(to, bytes_of(saved).data() + piece.offset, static_cast<std::size_t>(piece.kept.num_bytes()));
          }};
}

const std::vector<std::byte>& HeldTensors::bytes_of(const SavedTensor& wanted) const {
  const auto found = held_.find(wanted.tensor.name);
  require_internal(found != held_.end() && found->second.kept == wanted.kept,
                   "what a run goes on with has the tensors it had");
  return found->second.bytes;
}

}  // namespace trainer
