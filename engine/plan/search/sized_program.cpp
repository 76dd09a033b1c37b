#include "engine/plan/search/sized_program.h"

#include <algorithm>
#include <utility>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// By how much a dimension grows with each sample; 0: it does not; nothing where it is neither.
std::optional<std::int64_t> growth(std::int64_t at_low, std::int64_t low, std::int64_t at_high, std::int64_t high) {
  if (at_low == at_high) return 0;
  if (at_low % low != 0 || at_high != at_low / low * high) return std::nullopt;
  return at_low / low;
}

/// Whether scratch may live around a run of `op` alone: that of what is started is a buffer like any other, and of no
/// batch size.
bool may_take_scratch(const Op& op) { return definition_of(op.kind).takes_scratch && !is_started(op); }

int sign(std::int64_t number) { return (number > 0 ? 1 : 0) - (number < 0 ? 1 : 0); }

}  // namespace

std::optional<SizedBytes> sized_bytes(const TensorType& at_low, std::int64_t low, const TensorType& at_high,
                                      std::int64_t high) {
  if (at_low.dtype != at_high.dtype || at_low.shape.rank() != at_high.shape.rank()) return std::nullopt;
  int num_growing = 0;
  for (int axis = 0; axis < at_low.shape.rank(); ++axis) {
    const std::optional<std::int64_t> per_sample = growth(at_low.shape[axis], low, at_high.shape[axis], high);
    if (!per_sample) return std::nullopt;
    num_growing += *per_sample > 0 ? 1 : 0;
  }
  if (num_growing > 1) return std::nullopt;
  if (num_growing == 0) return SizedBytes{.fixed = at_low.num_bytes()};
  return SizedBytes{.per_sample = at_low.num_bytes() / low};
}

SizedProgram::Side SizedProgram::side_of(const Program& program, std::int64_t batch_size) {
  Side side{program, batch_size, std::vector<bool>(program.buffers.size(), false),
            std::vector<std::int32_t>(program.buffers.size(), -1)};
  for (const OpCall& call : program.calls)
    if (call.workspace >= 0 && !is_started(call.op)) side.is_workspace[call.workspace] = true;
  return side;
}

std::optional<SizedProgram> SizedProgram::make(const Program& low, const Program& high) {
  SizedProgram sized;
  Side low_side = side_of(low, low.micro_batches.front().batch_size),
       high_side = side_of(high, high.micro_batches.front().batch_size);
  if (low_side.batch_size >= high_side.batch_size) return std::nullopt;
  const auto add = [&](Part part, const Routine& at_low, const Routine& at_high) {
    return sized.add_routine(low_side, at_low, high_side, at_high, sized.parts_[part]);
  };
  const Program::MicroBatch &low_batch = low.micro_batches.front(), &high_batch = high.micro_batches.front();
  const bool are_alike = add(load, low.load, high.load) && add(first, low_batch.first, high_batch.first) &&
                         add(next, low_batch.next, high_batch.next) && add(update, low.update, high.update);
  if (!are_alike) return std::nullopt;
  return sized;
}

std::optional<SizedProgram> SizedProgram::make_evaluation(const Program& low, const Program& high) {
  SizedProgram sized;
  const Routine &at_low = low.evaluations.front(), &at_high = high.evaluations.front();
  Side low_side = side_of(low, at_low.batch_size), high_side = side_of(high, at_high.batch_size);
  if (at_low.batch_size >= at_high.batch_size) return std::nullopt;
  if (!sized.add_routine(low_side, at_low, high_side, at_high, sized.parts_[first])) return std::nullopt;
  return sized;
}

std::int64_t SizedProgram::num_instructions() const {
  std::size_t number = 0;
  for (const std::vector<Instruction>& part : parts_) number += part.size();
  return static_cast<std::int64_t>(number);
}

bool SizedProgram::add_routine(Side& low, const Routine& at_low, Side& high, const Routine& at_high,
                               std::vector<Instruction>& instructions) {
  using Kind = trainer::Instruction::Kind;
  // Scratch is there or not as the device says, for each batch size.
  const auto next_of = [](const Side& side, const Routine& routine, std::size_t i) {
    while (i < routine.instructions.size() && routine.instructions[i].kind != Kind::run &&
           side.is_workspace[routine.instructions[i].index])
      ++i;
    return i;
  };
  std::size_t i = 0, j = 0;
  while (true) {
    i = next_of(low, at_low, i);
    j = next_of(high, at_high, j);
    if (i == at_low.instructions.size() || j == at_high.instructions.size()) break;
    const trainer::Instruction &a = at_low.instructions[i++], &b = at_high.instructions[j++];
    if (a.kind != b.kind) return false;
    std::int32_t index = -1;
    if (a.kind != Kind::run) {
      if (!add_buffer(low, a.index, high, b.index, index)) return false;
      instructions.push_back(
          {a.kind == Kind::allocate ? Instruction::Kind::allocate : Instruction::Kind::release, index});
      continue;
    }
    const OpCall &x = low.program.calls[a.index], &y = high.program.calls[b.index];
    if (x.inputs.size() != y.inputs.size() || x.outputs.size() != y.outputs.size()) return false;
    for (std::size_t k = 0; k < x.inputs.size(); ++k)
      if (low.buffers[x.inputs[k]] != high.buffers[y.inputs[k]]) return false;
    for (std::size_t k = 0; k < x.outputs.size(); ++k)
      if (low.buffers[x.outputs[k]] != high.buffers[y.outputs[k]]) return false;
    if (!add_op(low, x.op, high, y.op, index)) return false;
    instructions.push_back({Instruction::Kind::run, index});
  }
  return i == at_low.instructions.size() && j == at_high.instructions.size();
}

bool SizedProgram::add_buffer(Side& low, BufferId at_low, Side& high, BufferId at_high, std::int32_t& index) {
  index = low.buffers[at_low];
  if (index != high.buffers[at_high]) return false;
  if (index >= 0) return true;
  const Buffer &a = low.program.buffers[at_low], &b = high.program.buffers[at_high];
  const std::optional<SizedBytes> bytes = sized_bytes(a.type, low.batch_size, b.type, high.batch_size);
  if (!bytes || a.num_bytes != bytes->at(low.batch_size) || b.num_bytes != bytes->at(high.batch_size)) return false;
  index = static_cast<std::int32_t>(buffers_.size());
  low.buffers[at_low] = high.buffers[at_high] = index;
  buffers_.push_back(*bytes);
  return true;
}

bool SizedProgram::add_op(const Side& low, const Op& at_low, const Side& high, const Op& at_high, std::int32_t& index) {
  const auto [known, is_new] = op_indexes_.try_emplace(at_low, static_cast<std::int32_t>(ops_.size()));
  index = known->second;
  if (!is_new) return high_ops_[index] == at_high;
  if (at_low.kind != at_high.kind || at_low.attributes != at_high.attributes ||
      at_low.inputs.size() != at_high.inputs.size() || at_low.outputs.size() != at_high.outputs.size())
    return false;
  SizedOp sized{at_low, {}};
  for (const bool is_output : {false, true}) {
    const std::vector<TensorType>& of_low = is_output ? at_low.outputs : at_low.inputs;
    const std::vector<TensorType>& of_high = is_output ? at_high.outputs : at_high.inputs;
    for (std::size_t i = 0; i < of_low.size(); ++i) {
      if (!sized_bytes(of_low[i], low.batch_size, of_high[i], high.batch_size)) return false;
      for (int axis = 0; axis < of_low[i].shape.rank(); ++axis) {
        const std::int64_t per_sample =
            *growth(of_low[i].shape[axis], low.batch_size, of_high[i].shape[axis], high.batch_size);
        if (per_sample > 0) sized.dimensions.push_back({is_output, static_cast<std::int32_t>(i), axis, per_sample});
      }
    }
  }
  if (!takes_over_alike(at_low, at_high)) return false;
  ops_.push_back(std::move(sized));
  high_ops_.push_back(at_high);
  return true;
}

bool SizedProgram::takes_over_alike(const Op& at_low, const Op& at_high) {
  for (const InPlace& rule : in_place_rules(at_low)) {
    const auto more_bytes = [&](const Op& op) {
      return sign(op.inputs[rule.input].num_bytes() - op.outputs[rule.output].num_bytes());
    };
    if (more_bytes(at_low) != more_bytes(at_high)) return false;
  }
  return true;
}

void SizedProgram::resize(SizedOp& sized, std::int64_t batch_size) {
  for (const Dimension& dimension : sized.dimensions) {
    std::vector<TensorType>& operands = dimension.is_output ? sized.op.outputs : sized.op.inputs;
    operands[dimension.operand].shape[dimension.axis] = dimension.per_sample * batch_size;
  }
}

void SizedProgram::resize_ops(std::int64_t batch_size) {
  for (SizedOp& sized : ops_) resize(sized, batch_size);
}

std::int64_t SizedProgram::workspace(const DeviceModel& device, std::int32_t index) const {
  return is_started(ops_[index].op) ? 0 : device.workspace_bytes(ops_[index].op);
}

const std::vector<std::int64_t>& SizedProgram::most_workspaces(const DeviceModel& device, std::int64_t batch_size) {
  resize_ops(batch_size);
  most_workspaces_.resize(ops_.size());
  for (std::size_t i = 0; i < ops_.size(); ++i)
    most_workspaces_[i] = may_take_scratch(ops_[i].op) ? device.most_workspace_bytes(ops_[i].op) : 0;
  return most_workspaces_;
}

std::optional<std::int64_t> SizedProgram::scratch_beyond_high(const DeviceModel& device, std::int64_t batch_size) {
  if (most_at_high_.empty())
    for (const Op& op : high_ops_) most_at_high_.push_back(may_take_scratch(op) ? device.most_workspace_bytes(op) : 0);
  std::int64_t most_beyond = 0;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (most_at_high_[i] == unknown_workspace_bytes) return std::nullopt;
    if (ops_[i].dimensions.empty() || !may_take_scratch(ops_[i].op)) continue;
    resize(ops_[i], batch_size);
    const std::int64_t most = device.most_workspace_bytes(ops_[i].op);
    if (most == unknown_workspace_bytes) return std::nullopt;
    if (most > most_at_high_[i]) most_beyond = std::max(most_beyond, most);
  }
  return most_beyond;
}

bool SizedProgram::has_statistics_alike(const DeviceModel& device, std::int64_t batch_size) {
  return std::all_of(ops_.begin(), ops_.end(), [&](SizedOp& sized) {
    if (!may_have_statistics(sized.op)) return true;
    resize(sized, batch_size);
    return device.convolution_statistics(conv2d_with_statistics_op(sized.op)) ==
           attributes_of<Conv2dAttributes>(sized.op).statistics;
  });
}

const std::vector<std::int64_t>& SizedProgram::workspaces(const DeviceModel& device, std::int64_t batch_size) {
  resize_ops(batch_size);
  workspaces_.resize(ops_.size());
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (ops_[i].dimensions.empty() && knows_fixed_) continue;
    workspaces_[i] = workspace(device, static_cast<std::int32_t>(i));
  }
  knows_fixed_ = true;
  return workspaces_;
}

}  // namespace trainer
