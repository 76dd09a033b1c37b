#include "engine/program/offload.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/ops/offload.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Kind = Instruction::Kind;

namespace {

// 64 · 512 floats are 128 KiB, 64 · 100 floats less than 64 KiB.
const std::string deep_network =
    "data: {type: synthetic, shape: [100], classes: 10, samples: 64}\n"
    "train: {batch_size: 64}\n"
    "model:\n  layers:\n"
    "    - linear: {out: 512, name: a}\n    - tanh\n"
    "    - linear: {out: 512, name: b}\n    - tanh\n"
    "    - linear: {out: 100, name: small}\n    - tanh\n"
    "    - linear: {out: 512, name: c}\n    - tanh\n"
    "    - linear: {out: 512, name: d}\n    - tanh\n"
    "    - linear: {out: 512, name: e}\n    - tanh\n"
    "    - linear: {out: 10}\n";

Program program_of(const std::string& text, const std::vector<std::string>& overrides, const DataDescription& data) {
  return compile(parse_experiment(text, "test.yaml", overrides), data, DescribedDevice());
}
Program program_of(const std::vector<std::string>& overrides) {
  return program_of(deep_network, overrides, described_data({100}, 10, 64));
}

/// Where in a routine the four halves of one slot's way stand, and over which buffers.
struct Way {
  std::map<std::string, int> counts;
  std::size_t out_start = 0, out_finish = 0, back_start = 0, back_finish = 0;
  BufferId gone = -1, fetched = -1;
  LayerId layer = no_layer;
};

std::map<std::int32_t, Way> ways_of(const Program& program, const Routine& routine) {
  std::map<std::int32_t, Way> ways;
  for (std::size_t i = 0; i < routine.instructions.size(); ++i) {
    const Instruction& instruction = routine.instructions[i];
    if (instruction.kind != Kind::run) continue;
    const OpCall& call = program.calls[static_cast<std::size_t>(instruction.index)];
    if (call.op.kind != OpKind::offload && call.op.kind != OpKind::fetch) continue;
    const auto& attributes = std::get<OffloadAttributes>(call.op.attributes);
    Way& way = ways[attributes.slot];
    const bool is_out = call.op.kind == OpKind::offload;
    ++way.counts[std::string(is_out ? "out" : "back") + (attributes.finish ? " finish" : " start")];
    (is_out              ? attributes.finish ? way.out_finish : way.out_start
     : attributes.finish ? way.back_finish
                         : way.back_start) = i;
    const BufferId buffer = call.inputs.empty() ? call.outputs.at(0) : call.inputs.at(0);
    (is_out ? way.gone : way.fetched) = buffer;
    way.layer = call.layer;
  }
  return ways;
}

/// The layers whose activations leave.
std::set<std::string> layers_gone(const Program& program) {
  std::set<std::string> paths;
  for (const auto& [slot, way] : ways_of(program, program.micro_batches.at(0).first))
    paths.insert(program.layers[static_cast<std::size_t>(way.layer)].path);
  return paths;
}

std::string error_of(const std::vector<std::string>& overrides) {
  try {
    program_of(overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("Each slot's way is whole and in order, and nothing holds the value in between") {
  const Program program = program_of({"memory.offload=['*']"});
  const Routine& routine = program.micro_batches.at(0).first;
  const std::map<std::int32_t, Way> ways = ways_of(program, routine);
  REQUIRE(ways.size() >= 3);
  for (const auto& [slot, way] : ways) {
    INFO("slot " << slot);
    CHECK(way.counts ==
          std::map<std::string, int>{{"out start", 1}, {"out finish", 1}, {"back start", 1}, {"back finish", 1}});
    CHECK(way.out_start < way.out_finish);
    CHECK(way.out_finish < way.back_start);
    CHECK(way.back_start < way.back_finish);
    CHECK(way.gone != way.fetched);
    std::size_t released = 0, allocated = 0;
    for (std::size_t i = 0; i < routine.instructions.size(); ++i) {
      const Instruction& instruction = routine.instructions[i];
      if (instruction.kind == Kind::release && instruction.index == way.gone) released = i;
      if (instruction.kind == Kind::allocate && instruction.index == way.fetched) allocated = i;
      if (instruction.kind != Kind::run || (i >= way.back_start && i <= way.back_finish)) continue;
      const OpCall& call = program.calls[static_cast<std::size_t>(instruction.index)];
      for (const BufferId input : call.inputs) {
        if (input == way.fetched) CHECK(i > way.back_finish);
        if (input == way.gone) CHECK(i <= way.out_finish);
      }
    }
    CHECK(released == way.out_finish + 1);
    CHECK(allocated == way.back_start - 1);
  }
}

TEST_CASE("Large activations leave, small ones, parameters and what is soon read again stay") {
  // Tanh is read again by its gradient; the linear layers' outputs only by tanh, which is written over them. The fifth
  // tanh makes 25 KiB, the last two are read again at once.
  CHECK(layers_gone(program_of({"memory.offload=['*']", "memory.recompute_cheap=false"})) ==
        std::set<std::string>{"1", "3", "7"});
}

TEST_CASE("Only what the named layers make leaves") {
  CHECK(layers_gone(program_of({"memory.offload=['1']", "memory.recompute_cheap=false"})) ==
        std::set<std::string>{"1"});
  CHECK(layers_gone(program_of({"memory.offload=[linear]", "memory.recompute_cheap=false"})).empty());
  CHECK(layers_gone(program_of({})).empty());
}

TEST_CASE("Host memory counts each slot once, at its largest") {
  const Program one = program_of({"memory.offload=['1']", "memory.recompute_cheap=false"});
  CHECK(offload_bytes(one) == 64 * 512 * 4);
  // 64 = 2 · 25 + 14: two sizes of batches, and accumulation, share the slot.
  const Program odd = program_of(
      {"memory.offload=['1']", "memory.recompute_cheap=false", "train.batch_size=50", "train.accumulation_steps=2"});
  CHECK(offload_bytes(odd) == 50 * 512 * 4);
  CHECK(offload_bytes(program_of({})) == 0);
}

TEST_CASE("The planned peak is lower by what waits in host memory, where only activations are large") {
  const std::string text =
      "data: {type: synthetic, shape: [512], classes: 2, samples: 1024}\ntrain: {batch_size: 1024}\n"
      "optimizer: {type: sgd, lr: 0.1}\nmodel:\n  layers:\n    - linear: {out: 512}\n"
      "    - repeat: {times: 12, layers: [tanh, silu, sigmoid]}\n    - linear: {out: 2}\n";
  const Experiment off = parse_experiment(text, "test.yaml", {"memory.recompute_cheap=false"});
  Experiment on = off;
  on.memory.offload = {"*"};
  const DataDescription data = described_data({512}, 2, 1024);
  const auto peak_of = [&](const Experiment& experiment) {
    return make_memory_plan(compile(experiment, data, DescribedDevice()), RunSchedule(experiment, data),
                            unlimited_capacity)
        .peak_requested;
  };
  const std::int64_t activation = 1024 * 512 * 4;
  CHECK(peak_of(off) > 25 * activation);
  CHECK(peak_of(on) < 14 * activation);
}

TEST_CASE("A view of what left is read as a view of what returned") {
  const std::string text =
      "data: {type: synthetic, shape: [16, 16, 4], classes: 3, samples: 64}\ntrain: {batch_size: 64}\n"
      "model:\n  layers:\n    - conv2d: {out: 1, kernel: 1}\n    - flatten\n    - linear: {out: 300}\n    - tanh\n"
      "    - linear: {out: 300}\n    - tanh\n    - linear: {out: 300}\n    - tanh\n    - linear: {out: 3}\n";
  const Program program =
      program_of(text, {"memory.offload=[conv2d]", "memory.recompute_cheap=false"}, described_data({16, 16, 4}, 3, 64));
  const auto ways = ways_of(program, program.micro_batches.at(0).first);
  REQUIRE(ways.size() == 1);
  const Way& way = ways.begin()->second;
  const auto is_read_by = [&](OpKind kind, BufferId buffer) {
    return std::any_of(program.calls.begin(), program.calls.end(), [&](const OpCall& call) {
      return call.op.kind == kind && std::count(call.inputs.begin(), call.inputs.end(), buffer) > 0;
    });
  };
  CHECK(is_read_by(OpKind::linear, way.gone));
  CHECK_FALSE(is_read_by(OpKind::linear_backward_weight, way.gone));
  CHECK(is_read_by(OpKind::linear_backward_weight, way.fetched));
}

TEST_CASE("A pattern that matches no layer is an error with its place") {
  const std::string error = error_of({"memory.offload=[conv2d]"});
  INFO(error);
  CHECK(error.find("argument 'memory.offload=[conv2d]': error: 'memory.offload': no layer matches 'conv2d'") !=
        std::string::npos);
  CHECK(error_of({"memory.offload=[lineer]"}).find("did you mean 'linear'?") != std::string::npos);
  const std::string in_file = [] {
    try {
      program_of(deep_network + "memory:\n  offload: [linear, nowhere]\n", {}, described_data({100}, 10, 64));
    } catch (const ConfigError& wrong) {
      return std::string(wrong.what());
    }
    return std::string();
  }();
  CHECK(in_file.find("test.yaml:19:3: error: 'memory.offload': no layer matches 'nowhere'") != std::string::npos);
}
