#include "engine/program/sharding.h"

#include <map>
#include <utility>
#include <vector>

#include "engine/ops/op_definition.h"
#include "engine/program/held_parts.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;

}  // namespace

Sharding::Sharding(const Experiment& experiment)
    : level_(experiment.parallel.data > 1 ? experiment.parallel.shard : Shard::none) {}

BufferId add_kept(Program& program, Scheduler& scheduler, std::size_t parameter, std::string name, Category category,
                  const TensorType& whole, bool is_shared) {
  const LayerId layer = program.parameters[parameter].layer;
  const bool has_axis = !program.parameter_cuts.empty() && program.parameter_cuts[parameter];
  if (!is_shared && !has_axis && program.parameter_stages.empty()) {
    const BufferId buffer = scheduler.add_buffer(std::move(name), layer, category, whole);
    program.load.instructions.push_back({Kind::allocate, buffer, layer, Phase::load});
    return buffer;
  }
  TensorPart part{whole, program.parameters[parameter].type.num_elements(), is_shared};
  if (!program.parameter_stages.empty()) part.stages = program.parameter_stages[parameter];
  if (has_axis) part.axis = program.parameter_cuts[parameter];
  const TensorType type = part_type(part, program.ranks);
  const BufferId buffer = scheduler.add_buffer(std::move(name), layer, category, type);
  program.buffers[buffer].part = std::move(part);
  if (type.num_bytes() > 0) program.load.instructions.push_back({Kind::allocate, buffer, layer, Phase::load});
  return buffer;
}

BufferId part_of(Program& program, Scheduler& scheduler, BufferId buffer) {
  const Buffer whole = program.buffers[buffer];
  if (is_cut(whole)) return whole.num_bytes > 0 ? buffer : -1;
  const ElementRange range = rank_part(whole.type.num_elements(), program.ranks.num_data, program.ranks.data_place());
  if (range.count == 0) return -1;
  const BufferId view =
      scheduler.add_buffer(whole.name + ".part", whole.layer, whole.category, {whole.type.dtype, {range.count}});
  program.buffers[view].view_of = buffer;
  program.buffers[view].view_offset = range.begin * static_cast<std::int64_t>(size_of(whole.type.dtype));
  return view;
}

void append_gather(Program& program, Scheduler& scheduler, Routine& routine, std::span<const BufferId> wholes,
                   Phase phase) {
  std::map<DType, std::vector<BufferId>> by_type;
  for (const BufferId whole : wholes) by_type[program.buffers[whole].type.dtype].push_back(whole);
  for (auto& [type, buffers] : by_type) {
    std::vector<BufferId> parts;
    for (const BufferId whole : buffers)
      if (const BufferId part = part_of(program, scheduler, whole); part >= 0) parts.push_back(part);
    const Op op = all_gather_op(types_of(program, buffers), program.ranks.data_group(), program.ranks.data_place());
    scheduler.append_call(routine, op, std::move(parts), std::move(buffers), no_layer, phase);
  }
}

void append_copies(Program& program, Scheduler& scheduler, std::span<const BufferId> sources, Routine& routine,
                   Phase phase) {
  std::vector<BufferId> gathered;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    BufferId copy = program.copy_buffers[p], source = sources[p];
    if (copy < 0 || source < 0) continue;
    if (is_cut(program.buffers[source])) {
      if (!is_cut(program.buffers[copy])) gathered.push_back(copy);
      copy = part_of(program, scheduler, copy);
      source = part_of(program, scheduler, source);
    }
    if (copy >= 0)
      scheduler.append_call(routine, cast_op(program.buffers[source].type, program.buffers[copy].type.dtype), {source},
                            {copy}, program.parameters[p].layer, phase);
  }
  if (!gathered.empty()) append_gather(program, scheduler, routine, gathered, phase);
}

std::pair<Op, std::vector<BufferId>> reduce_scatter_of(const Program& program, std::span<const BufferId> wholes,
                                                       std::span<const BufferId> parts, bool adds) {
  std::pair<Op, std::vector<BufferId>> call;
  call.first =
      reduce_scatter_op(types_of(program, wholes), program.ranks.data_group(), program.ranks.data_place(), adds);
  call.second.assign(wholes.begin(), wholes.end());
  for (const BufferId part : parts)
    if (part >= 0) call.second.push_back(part);
  return call;
}

namespace {

/// Of a routine: what a rank without samples runs, too, and the buffers that live within it.
struct SharedCalls {
  std::vector<OpCall> calls;
  std::vector<char> is_allocated, is_released;  // by buffer
  std::vector<std::size_t> last_call;           // by buffer

  SharedCalls(const Program& program, const Routine& routine)
      : is_allocated(program.buffers.size(), 0),
        is_released(program.buffers.size(), 0),
        last_call(program.buffers.size(), 0) {
    for (const Instruction& instruction : routine.instructions) {
      const auto index = static_cast<std::size_t>(instruction.index);
      if (instruction.kind == Kind::allocate) is_allocated[index] = 1;
      if (instruction.kind == Kind::release) is_released[index] = 1;
      if (instruction.kind != Kind::run) continue;
      const OpDefinition& definition = definition_of(program.calls[index].op.kind);
      if (!is_exchange(program.calls[index].op) && !definition.needs_no_samples) continue;
      // Stages tell each other what they make of samples, and so do ranks that share a layer.
      if (const OpKind kind = program.calls[index].op.kind; kind == OpKind::send || kind == OpKind::receive) continue;
      if (is_exchange(program.calls[index].op) && program.ranks.num_tensor > 1 &&
          ranks_of(program.calls[index].op) == program.ranks.tensor_group())
        continue;
      calls.push_back(program.calls[index]);
      // Nothing of this rank runs beside it.
      calls.back().op = to_its_end(std::move(calls.back().op));
    }
    for (std::size_t i = 0; i < calls.size(); ++i)
      for (const auto* operands : {&calls[i].inputs, &calls[i].outputs})
        for (const BufferId buffer : *operands) last_call[buffer] = i;
  }
};

/// Whether the op reads that input: where parts of sums are not added to, it only writes them.
bool reads_input(const Op& op, std::size_t position) {
  if (op.kind != OpKind::reduce_scatter) return true;
  const auto& attributes = attributes_of<RankPartsAttributes>(op);
  return attributes.adds || position < static_cast<std::size_t>(attributes.num_tensors);
}

}  // namespace

Routine schedule_without_samples(Program& program, Scheduler& scheduler, const Routine& with_samples,
                                 std::string name) {
  Routine routine;
  routine.name = std::move(name);
  SharedCalls shared(program, with_samples);
  for (std::size_t i = 0; i < shared.calls.size(); ++i) {
    const OpCall& call = shared.calls[i];
    // Whether it came to be here.
    const auto allocate = [&](BufferId buffer) {
      if (shared.is_allocated[buffer] == 0) return false;
      shared.is_allocated[buffer] = 0;
      routine.instructions.push_back({Kind::allocate, buffer, call.layer, call.phase});
      return true;
    };
    std::vector<BufferId> zeros;
    for (std::size_t operand = 0; operand < call.inputs.size(); ++operand)
      if (allocate(call.inputs[operand]) && reads_input(call.op, operand)) zeros.push_back(call.inputs[operand]);
    if (!zeros.empty()) {
      const Op fill = fill_zero_op(types_of(program, zeros));
      scheduler.append_call(routine, fill, std::move(zeros), {}, call.layer, call.phase);
    }
    for (const BufferId output : call.outputs) allocate(output);
    scheduler.append_call(routine, call.op, call.inputs, call.outputs, call.layer, call.phase);
    for (const auto* operands : {&call.inputs, &call.outputs})
      for (const BufferId buffer : *operands)
        if (shared.last_call[buffer] == i && std::exchange(shared.is_released[buffer], 0) != 0)
          routine.instructions.push_back({Kind::release, buffer, call.layer, call.phase});
  }
  return routine;
}

}  // namespace trainer
