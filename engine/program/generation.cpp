#include "engine/program/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/config/diagnostic.h"
#include "engine/graph/generation_graph.h"
#include "engine/program/placement.h"
#include "engine/program/precision.h"
#include "engine/program/relu_fusion.h"
#include "engine/program/residual_fusion.h"
#include "engine/program/schedule.h"

namespace trainer {
namespace {

Graph make_generation_graph(const Experiment& experiment, std::int64_t num_tokens, std::int64_t num_kept) {
  Graph graph = build_generation_graph(experiment, num_tokens);
  if (experiment.train.amp != Amp::off) {
    PrecisionOptions options = precision_options(experiment);
    options.master_weights = false;
    options.scales_loss = false;
    apply_precision(graph, options);
  }
  fuse_relu(graph);
  keep_attention(graph, num_kept);
  return graph;
}

void adopt_generation(Program& program, Scheduler& scheduler, const Graph& graph) {
  program.layers = graph.layers;
  program.parameters = graph.parameters;
  program.copy_buffers.assign(program.parameters.size(), -1);
  const auto add_persistent = [&](std::string name, const Value& value) {
    const BufferId buffer = scheduler.add_buffer(std::move(name), value.layer, value.category, value.type);
    program.load.instructions.push_back({Instruction::Kind::allocate, buffer, value.layer, Phase::load});
    return buffer;
  };
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    require_internal(graph.parameter_copies[p] < 0, "a parameter without a master has no copy");
    program.parameter_buffers.push_back(
        add_persistent(program.parameters[p].name, graph.values[graph.parameter_values[p]]));
  }
  for (const ValueId kept : graph.kept) {
    const Value& value = graph.values[kept];
    program.generation->kept.push_back(add_persistent(graph.layers[value.layer].path + "." + value.role, value));
  }
}

}  // namespace

Program compile_generation(const Experiment& experiment, std::int64_t length, const DeviceModel& device) {
  require_internal(length >= 1, "a text has a token");
  if (const std::int64_t longest = longest_text(experiment); longest > 0 && length > longest)
    throw ConfigError(
        fmt::format("the model has places for {} tokens, prompt and new ones together; these are {}", longest, length));
  Program program;
  program.load.name = "load";
  program.generation.emplace();
  program.generation->length = length;
  const std::int64_t num_kept = std::max<std::int64_t>(length - 1, 1);
  Scheduler scheduler(program, device, experiment.memory.in_place);
  Graph token = make_generation_graph(experiment, 1, num_kept);
  adopt_generation(program, scheduler, token);
  fuse_residuals(token, experiment.memory.in_place);
  program.generation->token = scheduler.schedule_evaluation(token, "token");
  if (length > 2) {
    Graph piece = make_generation_graph(experiment, std::min(most_prompt_piece, length - 2), num_kept);
    leave_out_prediction(piece);
    fuse_residuals(piece, experiment.memory.in_place);
    program.generation->prompt = scheduler.schedule_evaluation(piece, "prompt");
  }
  if (experiment.memory.allocator == AllocatorKind::planned) place(program);
  return program;
}

std::int64_t longest_text(const Experiment& experiment) {
  // Of two tokens, since of one alone what mixes them may do nothing.
  return most_positions(build_generation_graph(experiment, 2));
}

}  // namespace trainer
