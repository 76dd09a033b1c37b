#include "engine/plan/out_of_memory_context.h"

#include <numeric>

namespace trainer {

std::string op_served_by(const Program& program, const Routine& routine, std::size_t instruction) {
  for (std::size_t i = instruction; i < routine.instructions.size(); ++i) {
    const Instruction& candidate = routine.instructions[i];
    if (candidate.kind == Instruction::Kind::run) return std::string(name_of(program.calls[candidate.index].op.kind));
  }
  return "";
}

LiveMemory describe_live_memory(const Program& program, const LiveBuffers& live) {
  LiveMemory memory;
  memory.by_category = live.by_category();
  const std::vector<CategoryBytes> layers = live.by_layer();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::int64_t num_bytes = std::accumulate(layers[layer].begin(), layers[layer].end(), std::int64_t{0});
    if (num_bytes == 0) continue;
    const bool is_layer = layer < program.layers.size();
    memory.by_layer.push_back(
        {is_layer ? program.layer_label(static_cast<LayerId>(layer)) : "(no layer)", num_bytes, layers[layer]});
  }
  for (BufferId id : live.largest(10)) {
    const Buffer& buffer = program.buffers[id];
    memory.top.push_back({buffer.name, program.layer_label(buffer.layer), buffer.category, live.block(id).size});
  }
  return memory;
}

OutOfMemoryContext describe_out_of_memory(const Program& program, const LiveBuffers& live, const Routine& routine,
                                          std::size_t instruction, const AllocationFailure& failure,
                                          std::int64_t step) {
  OutOfMemoryContext context;
  context.failure = failure;
  context.step = step;
  const Instruction& failed = routine.instructions[instruction];
  context.phase = failed.phase;
  context.layer = program.layer_label(failed.layer);
  context.op = op_served_by(program, routine, instruction);
  const Buffer& buffer = program.buffers[failed.index];
  context.buffer = buffer.name;
  context.category = buffer.category;
  context.live = describe_live_memory(program, live);
  return context;
}

}  // namespace trainer
