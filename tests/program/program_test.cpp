#include "engine/program/program.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"
#include "tests/program/live_program.h"

using namespace trainer;
using Kind = Instruction::Kind;

namespace {

Experiment image_experiment(const std::string& layers, const std::string& rest = "") {
  return parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\n"
      "model:\n  layers:\n" +
          layers + rest,
      "test.yaml");
}

const std::string residual_network =
    "    - conv2d: {out: 6, kernel: 3, padding: 1}\n"
    "    - relu\n"
    "    - residual: {layers: [{conv2d: {out: 6, kernel: 3, padding: 1}}, batchnorm2d, silu]}\n"
    "    - relu\n"
    "    - maxpool2d: {kernel: 2}\n"
    "    - flatten\n"
    "    - dropout: {p: 0.2}\n"
    "    - linear: {out: 10}\n";

/// Whole steps keep every promise about lifetimes, and end as they began.
void check_lifetimes(const Program& program, const RunSchedule& schedule) {
  LiveProgram live(program);
  live.walk(program.load);
  const std::set<BufferId> persistent = live.live();
  for (std::int64_t step = 1; step <= schedule.total_steps(); ++step) {
    const RunSchedule::Step shape = schedule.step(step);
    for (std::int64_t m = 0; m < shape.num_micro_batches; ++m) {
      const bool is_odd = shape.last_is_odd && m + 1 == shape.num_micro_batches;
      const auto& micro_batch = program.micro_batches[is_odd ? 1 : 0];
      live.walk(m == 0 ? micro_batch.first : micro_batch.next);
    }
    live.walk(program.update);
    CHECK(live.live() == persistent);
    if (shape.evaluates)
      for (const Routine& routine : program.evaluations) live.walk(routine);
    CHECK(live.live() == persistent);
  }
}

}  // namespace

TEST_CASE("every operand is live when it is used and a step leaves only what load left") {
  for (const char* rest : {"train: {batch_size: 10, epochs: 2}\n",
                           "train: {batch_size: 10, accumulation_steps: 3, epochs: 2, clip_norm: 1.0}\n"
                           "optimizer: {type: adamw}\n",
                           "train: {batch_size: 7, accumulation_steps: 10, epochs: 1, eval_every: 1}\n"
                           "optimizer: {type: sgd, momentum: 0.9, weight_decay: 0.1}\n"}) {
    const Experiment experiment = image_experiment(residual_network, rest);
    const DataDescription data = described_data({8, 8, 3}, 10, 64, 23);
    check_lifetimes(compile(experiment, data, DescribedDevice(1000)), RunSchedule(experiment, data));
  }
}

TEST_CASE("ReLU is applied by the layer before it and in-place layers own no buffer") {
  const Experiment experiment = image_experiment(residual_network, "train: {batch_size: 8}\n");
  const Program program = compile(experiment, described_data({8, 8, 3}, 10, 64), DescribedDevice());
  std::set<std::string> names;
  for (const Buffer& buffer : program.buffers) names.insert(buffer.name);
  CHECK(names.count("0.output") == 1);
  CHECK(names.count("1.output") == 0);  // relu after conv2d
  CHECK(names.count("3.output") == 0);  // relu after residual
  CHECK(names.count("6.output") == 0);  // dropout over the flattened features
  for (const OpCall& call : program.calls) {
    if (call.op.kind != OpKind::activation) continue;
    CHECK(attributes_of<ActivationAttributes>(call.op).function != Activation::relu);
  }
}

TEST_CASE(
    "a training step computes the loss and its gradient in one call, over the logits; evaluation the loss alone") {
  const Experiment experiment = image_experiment(residual_network, "train: {batch_size: 8}\n");
  const Program program = compile(experiment, described_data({8, 8, 3}, 10, 64, 8), DescribedDevice());
  int num_of_training = 0, num_of_evaluation = 0;
  for (const OpCall& call : program.calls) {
    CHECK(call.op.kind != OpKind::cross_entropy_backward);
    if (call.op.kind == OpKind::cross_entropy) {
      ++num_of_evaluation;
      CHECK(call.phase == Phase::eval);
    }
    if (call.op.kind != OpKind::cross_entropy_with_gradient) continue;
    ++num_of_training;
    CHECK(call.phase == Phase::backward);
    CHECK(program.layers[call.layer].path == "loss");
    CHECK(call.inputs[2] == program.loss_statistics);
    CHECK(call.outputs[0] == call.inputs[0]);
  }
  CHECK(num_of_training == 1);
  CHECK(num_of_evaluation == 1);
}

TEST_CASE("what a group norm with ReLU made is computed again from its input and two numbers a group") {
  for (const std::string norm : {"groupnorm: {groups: 4}", "instancenorm2d: {affine: true}", "instancenorm2d"}) {
    INFO(norm);
    const std::string conv = "    - conv2d: {out: 8, kernel: 3, padding: 1}\n";
    const Experiment experiment =
        image_experiment(conv + "    - " + norm + "\n    - relu\n" + conv + "    - flatten\n    - linear: {out: 10}\n",
                         "train: {batch_size: 8}\n");
    const Program program = compile(experiment, described_data({8, 8, 3}, 10, 64, 8), DescribedDevice());
    int num_first = 0, num_again = 0, num_gradients = 0;
    for (const OpCall& call : program.calls) {
      CHECK(call.op.kind != OpKind::activation);
      CHECK(call.op.kind != OpKind::activation_backward);
      const auto* const attributes = std::get_if<GroupNormAttributes>(&call.op.attributes);
      if (attributes == nullptr) continue;
      CHECK(attributes->relu);
      num_first += call.op.kind == OpKind::groupnorm ? 1 : 0;
      num_again += call.op.kind == OpKind::groupnorm_normalize && call.phase == Phase::recompute ? 1 : 0;
      num_gradients += call.op.kind == OpKind::groupnorm_backward ? 1 : 0;
    }
    CHECK(num_first == 2);  // training and evaluation
    CHECK(num_again == 1);
    CHECK(num_gradients == 1);
  }
}

TEST_CASE("every update reads the loss first") {
  const Experiment experiment =
      image_experiment(residual_network, "train: {batch_size: 8, clip_norm: 1.0}\noptimizer: {type: adamw}\n");
  const Program program = compile(experiment, described_data({8, 8, 3}, 10, 64), DescribedDevice());
  int num_updates = 0;
  for (const OpCall& call : program.calls) {
    if (call.op.kind != OpKind::adam_update) continue;
    ++num_updates;
    CHECK(call.inputs[0] == program.loss_statistics);
    CHECK(program.buffers[call.inputs[1]].name == "optimizer.gradient_factor");
  }
  CHECK(num_updates == 2);  // what decays, and norms and biases
}

TEST_CASE("no call writes over a buffer that a later call still reads as it was") {
  // A slow, separate witness: each buffer's content is a version number; a read must see the version that the graph's
  // value had when it was written. Values are told apart by (writer, output).
  const Experiment experiment = image_experiment(residual_network, "train: {batch_size: 8}\n");
  const DataDescription data = described_data({8, 8, 3}, 10, 64);
  const Program program = compile(experiment, data, DescribedDevice());
  const Routine& routine = program.micro_batches[0].first;
  // The gradient of ReLU reads the activation which the forward call wrote, not something written over it since.
  std::vector<std::int32_t> last_writer(program.buffers.size(), -1);
  std::vector<std::int32_t> forward_writer(program.buffers.size(), -1);
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind != Kind::run) continue;
    const OpCall& call = program.calls[instruction.index];
    if (call.phase == Phase::backward) {
      for (std::size_t i = 1; i < call.inputs.size(); ++i) {
        // All but the arriving gradient are forward values.
        const BufferId input = call.inputs[i];
        if (call.op.kind == OpKind::add || forward_writer[input] < 0) continue;
        CHECK(last_writer[input] == forward_writer[input]);
      }
    }
    for (BufferId output : call.outputs) {
      last_writer[output] = instruction.index;
      if (call.phase == Phase::forward) forward_writer[output] = instruction.index;
    }
  }
}

TEST_CASE("the odd last batch and evaluation have routines of their own") {
  const Experiment experiment = image_experiment(residual_network, "train: {batch_size: 10}\n");
  const Program program = compile(experiment, described_data({8, 8, 3}, 10, 64, 23), DescribedDevice());
  REQUIRE(program.micro_batches.size() == 2);
  CHECK(program.micro_batches[0].batch_size == 10);
  CHECK(program.micro_batches[1].batch_size == 4);
  CHECK(program.micro_batches[0].next.instructions.empty());
  REQUIRE(program.evaluations.size() == 2);
  CHECK(program.evaluations[0].batch_size == 10);
  CHECK(program.evaluations[1].batch_size == 3);
}

TEST_CASE("a model without parameters is refused") {
  const Experiment experiment = image_experiment("    - flatten\n");
  const DataDescription data = described_data({1, 1, 10}, 10, 64);
  CHECK_THROWS_WITH(compile(experiment, data, DescribedDevice()), Catch::Matchers::Contains("no parameters to train"));
}

TEST_CASE("the schedule cuts epochs into steps, micro-batches and evaluations") {
  const Experiment experiment =
      image_experiment(residual_network, "train: {batch_size: 10, accumulation_steps: 3, epochs: 2}\n");
  const RunSchedule schedule(experiment, described_data({8, 8, 3}, 10, 64, 5));
  // 64 = 6 × 10 + 4: seven micro-batches, in steps of 3, 3 and 1.
  CHECK(schedule.steps_per_epoch() == 3);
  CHECK(schedule.total_steps() == 6);
  CHECK(schedule.step(1).num_samples == 30);
  CHECK(schedule.step(3).num_samples == 4);
  CHECK(schedule.step(3).last_is_odd);
  CHECK(schedule.step(3).evaluates);
  CHECK_FALSE(schedule.step(2).evaluates);
  CHECK(schedule.step(4).epoch == 1);
  CHECK(schedule.step(4).first_batch == 0);
  CHECK(schedule.num_steps_alike(1) == 1);
  CHECK(schedule.num_steps_alike(3) == 0);
}

TEST_CASE("a batch larger than the data is the whole data") {
  const Experiment experiment = image_experiment(residual_network, "train: {batch_size: 1000}\n");
  const RunSchedule schedule(experiment, described_data({8, 8, 3}, 10, 64));
  CHECK(schedule.batch_size() == 64);
  CHECK(schedule.odd_batch_size() == 0);
  CHECK(schedule.steps_per_epoch() == 1);
}
