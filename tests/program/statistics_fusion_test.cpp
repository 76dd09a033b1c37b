#include "engine/program/statistics_fusion.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;

/// Has statistics of f16 convolutions, and notes what it is asked about.
class DeviceWithStatistics : public DescribedDevice {
 public:
  bool convolution_statistics(const Op& conv2d) const override {
    asked.push_back(conv2d);
    return conv2d.outputs[0].dtype == DType::f16;
  }
  mutable std::vector<Op> asked;
};

const std::string unbiased_conv = "{conv2d: {out: 4, kernel: 3, padding: 1, bias: false}}";
const std::string biased_conv = "{conv2d: {out: 4, kernel: 3, padding: 1}}";
const std::string conv_bn = unbiased_conv + ", batchnorm2d";
const std::string end_of_images = ", flatten, {linear: {out: 10}}";

Program program_of(const std::string& layers, const std::string& train = "amp: fp16",
                   const DeviceModel& device = DeviceWithStatistics(), int batch_size = 16) {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64, validation_samples: 20}\nmodel:\n  layers: "
      "[" +
          layers + end_of_images + "]\ntrain: {batch_size: " + std::to_string(batch_size) + ", " + train + "}\n",
      "test.yaml");
  return compile(experiment, described_data({8, 8, 3}, 10, 64, 20), device);
}

std::vector<const OpCall*> calls_of(const Program& program, const Routine& routine) {
  std::vector<const OpCall*> calls;
  for (const Instruction& instruction : routine.instructions)
    if (instruction.kind == Kind::run) calls.push_back(&program.calls[instruction.index]);
  return calls;
}

bool has_statistics(const Op& op) {
  const auto* const attributes = std::get_if<Conv2dAttributes>(&op.attributes);
  return op.kind == OpKind::conv2d && attributes->statistics;
}
bool has_given_sums(const Op& op) {
  const auto* const attributes = std::get_if<BatchNorm2dAttributes>(&op.attributes);
  return attributes != nullptr && attributes->given_sums;
}

struct StatisticsCounts {
  int convolutions = 0, norms = 0;
  friend bool operator==(const StatisticsCounts&, const StatisticsCounts&) = default;
};
std::ostream& operator<<(std::ostream& out, const StatisticsCounts& counts) {
  return out << counts.convolutions << " convolutions with statistics, " << counts.norms << " norms that take them";
}

StatisticsCounts counts_of(const Program& program, const Routine& routine) {
  StatisticsCounts counts;
  for (const OpCall* const call : calls_of(program, routine)) {
    counts.convolutions += has_statistics(call->op) ? 1 : 0;
    counts.norms += has_given_sums(call->op) ? 1 : 0;
  }
  return counts;
}
StatisticsCounts training_counts(const std::string& layers, const std::string& train = "amp: fp16") {
  const Program program = program_of(layers, train);
  return counts_of(program, program.micro_batches[0].first);
}

/// Every operand is live when it is used, and of the type that its op says.
void require_consistent(const Program& program, const Routine& routine) {
  std::set<BufferId> live;
  for (const Instruction& instruction : program.load.instructions) live.insert(instruction.index);
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind == Kind::allocate) REQUIRE(live.insert(instruction.index).second);
    if (instruction.kind == Kind::release) REQUIRE(live.erase(instruction.index) == 1);
    if (instruction.kind != Kind::run) continue;
    const OpCall& call = program.calls[instruction.index];
    REQUIRE(call.inputs.size() == call.op.inputs.size());
    REQUIRE(call.outputs.size() == call.op.outputs.size());
    for (const auto& [buffers, types] : {std::pair(&call.inputs, &call.op.inputs), {&call.outputs, &call.op.outputs}}) {
      for (std::size_t i = 0; i < buffers->size(); ++i) {
        REQUIRE(live.count((*buffers)[i]) == 1);
        REQUIRE(program.buffers[(*buffers)[i]].num_bytes == (*types)[i].num_bytes());
      }
    }
  }
}

/// The instruction that does `kind` with the buffer.
std::size_t place_of(const Routine& routine, Kind kind, BufferId buffer) {
  const auto found = std::find_if(
      routine.instructions.begin(), routine.instructions.end(),
      [&](const Instruction& instruction) { return instruction.kind == kind && instruction.index == buffer; });
  REQUIRE(found != routine.instructions.end());
  return static_cast<std::size_t>(found - routine.instructions.begin());
}

}  // namespace

TEST_CASE("a batch norm behind a convolution takes its sums, which are held from the one to the other") {
  const Program program = program_of(conv_bn + ", relu, " + conv_bn);
  const Routine& routine = program.micro_batches[0].first;
  CHECK(counts_of(program, routine) == StatisticsCounts{2, 2});
  require_consistent(program, routine);
  const std::vector<const OpCall*> calls = calls_of(program, routine);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!has_statistics(calls[i]->op)) continue;
    const OpCall &convolution = *calls[i], &norm = *calls[i + 1];
    REQUIRE(has_given_sums(norm.op));
    CHECK(norm.inputs[0] == convolution.outputs[0]);
    CHECK(norm.inputs[5] == convolution.outputs[1]);
    CHECK(norm.inputs[6] == convolution.outputs[2]);
    for (const BufferId sums : {convolution.outputs[1], convolution.outputs[2]}) {
      CHECK(program.buffers[sums].type == TensorType{DType::f32, {4}});
      CHECK(program.buffers[sums].category == Category::temporary);
      const std::size_t end = place_of(routine, Kind::release, sums);
      CHECK(program.calls[routine.instructions[end - 1].index].op != convolution.op);
      for (std::size_t at = place_of(routine, Kind::allocate, sums); at < end; ++at)
        if (routine.instructions[at].kind == Kind::run)
          CHECK((has_statistics(program.calls[routine.instructions[at].index].op) ||
                 has_given_sums(program.calls[routine.instructions[at].index].op)));
    }
    CHECK(program.buffers[convolution.outputs[1]].name.ends_with(".output.sums"));
    CHECK(program.buffers[convolution.outputs[2]].name.ends_with(".output.square_sums"));
  }
}

TEST_CASE("sums stand behind the addend of a residual block, and without weights where there are none") {
  const Program program =
      program_of(conv_bn + ", {residual: {layers: [" + unbiased_conv + ", {batchnorm2d: {affine: false}}]}}");
  CHECK(counts_of(program, program.micro_batches[0].first) == StatisticsCounts{2, 2});
  require_consistent(program, program.micro_batches[0].first);
  bool found = false;
  for (const OpCall* const call : calls_of(program, program.micro_batches[0].first)) {
    if (!has_given_sums(call->op) || !attributes_of<BatchNorm2dAttributes>(call->op).adds) continue;
    found = true;
    REQUIRE(call->inputs.size() == 6);
    CHECK(program.buffers[call->inputs[3]].type.shape.rank() == 4);
    CHECK(program.buffers[call->inputs[4]].name.ends_with(".output.sums"));
    CHECK(program.buffers[call->inputs[5]].name.ends_with(".output.square_sums"));
  }
  CHECK(found);
}

TEST_CASE("other pairs stay as they are") {
  CHECK(training_counts(biased_conv + ", batchnorm2d") == StatisticsCounts{});
  CHECK(training_counts(unbiased_conv + ", relu, batchnorm2d") == StatisticsCounts{});
  CHECK(training_counts(unbiased_conv + ", {maxpool2d: {kernel: 2}}, batchnorm2d") == StatisticsCounts{});
  CHECK(training_counts(unbiased_conv + ", silu") == StatisticsCounts{});
  CHECK(training_counts(conv_bn, "amp: bf16") == StatisticsCounts{});
  CHECK(training_counts(conv_bn, "amp: off") == StatisticsCounts{});
  const Program elsewhere = program_of(conv_bn, "amp: fp16", DescribedDevice());
  CHECK(counts_of(elsewhere, elsewhere.micro_batches[0].first) == StatisticsCounts{});
  const Program program = program_of(conv_bn);
  REQUIRE(program.evaluations.size() == 2);
  for (const Routine& evaluation : program.evaluations) CHECK(counts_of(program, evaluation) == StatisticsCounts{});
}

TEST_CASE("whoever else reads the convolution's output, its sums are those of it") {
  const std::string residual = "{residual: {layers: [batchnorm2d]}}";
  CHECK(training_counts(unbiased_conv + ", " + residual) == StatisticsCounts{1, 1});
  const std::string of_two_norms = "{residual: {layers: [batchnorm2d], shortcut: [batchnorm2d]}}";
  const Program program = program_of(unbiased_conv + ", " + of_two_norms);
  CHECK(counts_of(program, program.micro_batches[0].first) == StatisticsCounts{1, 2});
  require_consistent(program, program.micro_batches[0].first);
}

TEST_CASE("accumulating micro-batches and an odd last batch take sums too") {
  const Program program = program_of(conv_bn, "amp: fp16, accumulation_steps: 3", DeviceWithStatistics(), 12);
  REQUIRE(program.micro_batches.size() == 2);
  for (const Program::MicroBatch& micro_batch : program.micro_batches) {
    CHECK(counts_of(program, micro_batch.first) == StatisticsCounts{1, 1});
    CHECK(counts_of(program, micro_batch.next) == StatisticsCounts{1, 1});
  }
}

TEST_CASE("what is computed again runs as it did: a convolution with its statistics, a batch norm from its moments") {
  for (const std::string checkpointing : {"sqrt", "{every: 3}", "{layers: ['*']}"}) {
    INFO(checkpointing);
    const Program program =
        program_of(conv_bn + ", relu, " + conv_bn + ", relu, " + conv_bn, "amp: fp16, checkpointing: " + checkpointing);
    const Routine& routine = program.micro_batches[0].first;
    require_consistent(program, routine);
    int num_again = 0;
    std::set<BufferId> dropped;
    const std::vector<const OpCall*> calls = calls_of(program, routine);
    for (const OpCall* const call : calls) {
      if (call->phase != Phase::recompute) continue;
      CHECK(call->op.kind != OpKind::batchnorm2d);
      CHECK_FALSE(has_given_sums(call->op));
      if (call->op.kind != OpKind::conv2d) continue;
      ++num_again;
      const bool ran_before = std::any_of(calls.begin(), calls.end(), [&](const OpCall* const other) {
        return other->phase == Phase::forward && other->op == call->op;
      });
      CHECK(ran_before);
      dropped.insert(call->outputs.begin() + 1, call->outputs.end());
    }
    CHECK(num_again > 0);
    // Nobody reads what nobody needs, and it is not held.
    for (const OpCall* const call : calls)
      for (const BufferId input : call->inputs) CHECK(dropped.count(input) == 0);
  }
}

TEST_CASE("a device is asked about convolutions in front of a batch norm alone, and not for evaluation") {
  const DeviceWithStatistics device;
  program_of(conv_bn + ", " + unbiased_conv + ", silu, " + biased_conv + ", batchnorm2d", "amp: fp16", device);
  REQUIRE(device.asked.size() == 1);
  CHECK(device.asked[0].inputs[0].shape[3] == 3);
  CHECK(device.asked[0].outputs.size() == 3);
}

}  // namespace trainer
