#include "engine/plan/peak_uses.h"

#include <algorithm>

#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

/// What a routine does with one buffer around the moment that is looked at.
struct BufferUse {
  bool is_standing = false;
  bool is_read_now = false, is_written_now = false, is_workspace_now = false;
  Phase written_in = Phase::forward;  ///< last before that moment; also where the host or nobody wrote it
  bool is_read_backward = false;      ///< later
};

bool is_backward(Phase phase) { return phase == Phase::backward || phase == Phase::recompute; }

std::vector<BufferUse> find_uses(const Program& program, const Routine& routine, std::size_t instruction) {
  std::vector<BufferUse> uses(program.buffers.size());
  for_each_change(program.load, [&](BufferId buffer, bool is_allocated) { uses[buffer].is_standing = is_allocated; });
  bool is_first = true;
  for (std::size_t i = 0; i < routine.instructions.size(); ++i) {
    if (routine.instructions[i].kind != Instruction::Kind::run) continue;
    const OpCall& call = program.calls[routine.instructions[i].index];
    if (i < instruction) {
      for (const BufferId output : call.outputs) uses[output].written_in = call.phase;
    } else if (is_first) {
      is_first = false;
      for (const BufferId input : call.inputs) uses[input].is_read_now = true;
      for (const BufferId output : call.outputs) uses[output].is_written_now = true;
      if (call.workspace >= 0) uses[call.workspace].is_workspace_now = true;
    } else if (is_backward(call.phase)) {
      for (const BufferId input : call.inputs) uses[input].is_read_backward = true;
    }
  }
  return uses;
}

}  // namespace

PeakUses describe_uses(const Program& program, const LiveBuffers& live, const Routine& routine,
                       std::size_t instruction) {
  const std::vector<BufferUse> uses = find_uses(program, routine, instruction);
  std::vector<std::int64_t> kept_of_layer(program.layers.size() + 1, 0);
  PeakUses sums;
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    if (!live.is_live(id)) continue;
    const BufferUse& use = uses[id];
    const std::int64_t num_bytes = live.block(id).size;
    const LayerId layer = program.buffers[id].layer;
    if (use.is_standing) {
      sums.standing += num_bytes;
    } else if (program.buffers[id].category == Category::gradient) {
      sums.gradients += num_bytes;
    } else if (use.is_workspace_now) {
      sums.workspace += num_bytes;
    } else if (use.is_written_now) {
      sums.written += num_bytes;
    } else if (use.is_read_now) {
      sums.read += num_bytes;
    } else if (use.written_in == Phase::recompute) {
      sums.recomputed += num_bytes;
    } else if (use.is_read_backward && use.written_in == Phase::forward) {
      sums.kept += num_bytes;
      kept_of_layer[layer == no_layer ? program.layers.size() : static_cast<std::size_t>(layer)] += num_bytes;
    } else {
      sums.waiting += num_bytes;
    }
  }
  for (std::size_t layer = 0; layer < kept_of_layer.size(); ++layer) {
    if (kept_of_layer[layer] == 0) continue;
    const bool is_layer = layer < program.layers.size();
    sums.kept_by_layer.push_back(
        {is_layer ? program.layer_label(static_cast<LayerId>(layer)) : "(no layer)", kept_of_layer[layer]});
  }
  std::stable_sort(
      sums.kept_by_layer.begin(), sums.kept_by_layer.end(),
      [](const PeakUses::KeptLayer& a, const PeakUses::KeptLayer& b) { return a.num_bytes > b.num_bytes; });
  return sums;
}

}  // namespace trainer
