#include "engine/program/evaluation_program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"
#include "tests/program/live_program.h"

namespace trainer {
namespace {

constexpr const char* evaluated_network = R"(
data: {type: synthetic, shape: [6, 6, 2], classes: 4, samples: 44, validation_samples: 12}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - dropout: {p: 0.25}
    - flatten
    - linear: {out: 4, name: head}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 5}
)";

DataDescription data_of_network() {
  DataDescription data;
  data.inputs = {{.type = {DType::u8, Shape{6, 6, 2}}, .mean = {0, 0}, .std = {1, 1}}};
  data.num_outputs = 4;
  data.num_train = 44;
  data.num_validation = 12;
  return data;
}

std::vector<OpKind> ops_of(const Program& program, const Routine& routine) {
  std::vector<OpKind> kinds;
  for (const Instruction& instruction : routine.instructions)
    if (instruction.kind == Instruction::Kind::run)
      kinds.push_back(program.calls[static_cast<std::size_t>(instruction.index)].op.kind);
  return kinds;
}

}  // namespace

TEST_CASE("what is evaluated alone runs what a run evaluates, and holds nothing of training") {
  const DescribedDevice device;
  for (const std::string set :
       {"train.amp=off", "train.amp=bf16", "train.amp=fp16", "memory.allocator=planned", "train.confusion_matrix=on",
        "train.eval_batch_size=12", "train.eval_batch_size=100", "parallel.deterministic=true"}) {
    INFO(set);
    const Experiment experiment = parse_experiment(evaluated_network, "test.yaml", {set, "parallel.parts=4"});
    const DataDescription data = data_of_network();
    const Program whole = compile(experiment, data, device);
    for (const bool keeps : {false, true}) {
      const Program alone = compile_evaluation(experiment, data, device, keeps);
      REQUIRE(alone.evaluations.size() == whole.evaluations.size());
      for (std::size_t i = 0; i < alone.evaluations.size(); ++i) {
        CHECK(alone.evaluations[i].batch_size == whole.evaluations[i].batch_size);
        CHECK(ops_of(alone, alone.evaluations[i]) == ops_of(whole, whole.evaluations[i]));
      }
      for (const Buffer& buffer : alone.buffers) {
        CHECK(buffer.category != Category::gradient);
        CHECK(buffer.category != Category::optimizer_state);
      }
      CHECK(alone.micro_batches.empty());
      CHECK(alone.kept_predictions.size() == (keeps ? alone.evaluations.size() : 0U));
      LiveProgram live(alone);
      live.walk(alone.load);
      for (const Routine& evaluation : alone.evaluations) {
        const std::set<BufferId> before = live.live();
        live.walk(evaluation);
        CHECK(live.live() == before);
      }
      Experiment of_no_steps = experiment;
      of_no_steps.train.steps = 0;
      const RunSchedule schedule(of_no_steps, data);
      const MemoryPlan plan = make_memory_plan(alone, schedule, std::int64_t{1} << 30);
      CHECK(plan.fits);
      CHECK(plan.peak_allocated < make_memory_plan(whole, schedule, std::int64_t{1} << 30).peak_allocated);
    }
  }
}

TEST_CASE("logits are kept in f32, of each size of batch") {
  const DescribedDevice device;
  const Experiment experiment = parse_experiment(evaluated_network, "test.yaml", {"train.amp=bf16"});
  const Program program = compile_evaluation(experiment, data_of_network(), device, true);
  REQUIRE(program.kept_predictions.size() == 2);
  for (const std::size_t i : {0U, 1U}) {
    const auto kept = static_cast<std::size_t>(program.kept_predictions[i]);
    CHECK(program.buffers[kept].type == TensorType{DType::f32, Shape{program.evaluations[i].batch_size, 4}});
    CHECK(persistent_buffers(program)[kept] == 1);
  }
}

TEST_CASE("logits that are never whole are not kept") {
  const DescribedDevice device;
  const Experiment experiment = parse_experiment(evaluated_network, "test.yaml", {"memory.chunked_loss=2"});
  const Program program = compile_evaluation(experiment, data_of_network(), device, true);
  CHECK(program.kept_predictions.empty());
  CHECK(has_logits_in_parts(program));
}

TEST_CASE("without validation data there is nothing to evaluate") {
  const DescribedDevice device;
  DataDescription data = data_of_network();
  data.num_validation = 0;
  CHECK_THROWS_AS(compile_evaluation(parse_experiment(evaluated_network, "test.yaml", {}), data, device, true),
                  ConfigError);
}

}  // namespace trainer
