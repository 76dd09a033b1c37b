// Note [Averages of weights] in engine/program/weight_averages.h. Values: scripts/oracle/part_averages.py.

#include <cmath>
#include <map>

#include "engine/plan/search/compiled_experiment.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/files/safetensors.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Contains;

namespace {

using Tensors = std::map<std::string, std::vector<float>>;

Tensors tensors_of(const std::string& output, std::int64_t step, const std::string& file_name) {
  const SafetensorsFile file(RunDirectory(output).checkpoint_path(step) + "/" + file_name);
  Tensors tensors;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    std::vector<float>& values = tensors[file.tensors()[i].name];
    values.resize(static_cast<std::size_t>(file.tensors()[i].type.num_elements()));
    file.read(i, reinterpret_cast<std::byte*>(values.data()));
  }
  return tensors;
}

Program compiled(const std::vector<std::string>& overrides) {
  const Experiment experiment = parse_experiment(small_experiment, "test.yaml", overrides);
  return compile(experiment, describe_data(experiment.data, experiment.seed), *make_cpu_device(1));
}

std::int64_t bytes_in(const Program& program, Category category) {
  std::int64_t num_bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.category == category) num_bytes += buffer.num_bytes;
  return num_bytes;
}

RunSchedule schedule_of(const std::vector<std::string>& overrides) {
  const Experiment experiment = parse_experiment(small_experiment, "test.yaml", overrides);
  return {experiment, describe_data(experiment.data, experiment.seed)};  // 5 steps an epoch
}

}  // namespace

TEST_CASE("The shares of the averages are those of a mean and of a moving average over the steps that count") {
  const auto shares = [](const std::string& average, std::int64_t num_steps) {
    const RunSchedule schedule = schedule_of({"average=" + average});
    std::vector<double> all;
    for (std::int64_t step = 1; step <= num_steps; ++step) all.push_back(schedule.average_share(step));
    return all;
  };
  using Shares = std::vector<double>;
  CHECK(shares("off", 3) == Shares{0, 0, 0});
  CHECK(shares("{type: ema, decay: 0.75}", 4) == Shares{1, 0.25, 0.25, 0.25});
  CHECK(shares("{type: ema, decay: 0.75, after: 2, every: 2}", 8) == Shares{1, 1, 1, 1, 0, 0.25, 0, 0.25});
  CHECK(shares("{type: swa, every: 1}", 4) == Shares{1, 1.0 / 2, 1.0 / 3, 1.0 / 4});
  CHECK(shares("swa", 11) == Shares{1, 1, 1, 1, 1, 0, 0, 0, 0, 1.0 / 2, 0});
  CHECK(shares("{type: swa, after: 1ep, every: 2}", 10) == Shares{1, 1, 1, 1, 1, 1, 1, 0, 1.0 / 2, 0});
  CHECK(schedule_of({"average=swa"}).num_averaged() == 8);
  CHECK(schedule_of({"average={type: ema, after: 50}"}).num_averaged() == 0);
}

TEST_CASE("Averages are of what a step changes, four bytes a number, and evaluations read them") {
  const Program without = compiled({}), with = compiled({"average=ema"});
  std::int64_t averaged = 0;
  for (const Parameter& parameter : with.parameters) averaged += parameter.type.num_bytes();
  CHECK(bytes_in(with, Category::optimizer_state) == bytes_in(without, Category::optimizer_state) + averaged);

  // Running statistics are averaged with their layer: frozen weights stay as they are, and so do statistics by `on`.
  const auto averaged_names = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> names;
    const Program program = compiled(overrides);
    for (std::size_t p = 0; p < program.parameters.size(); ++p)
      if (program.average_buffers[p] >= 0) names.push_back(program.parameters[p].name);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(averaged_names({"average=ema", "freeze=['*', '!head']", "freeze_norms=on"}) ==
        Names{"head.weight", "head.bias"});
  CHECK(averaged_names({"average=ema", "freeze=['*', '!head']"}) ==
        Names{"1.running_mean", "1.running_var", "head.weight", "head.bias"});

  for (const Routine& routine : with.evaluations)
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind != Instruction::Kind::run) continue;
      for (const BufferId input : with.calls[static_cast<std::size_t>(instruction.index)].inputs)
        CHECK(with.buffers[static_cast<std::size_t>(input)].category != Category::parameter);
    }
}

TEST_CASE("A checkpoint holds the averages as its model, and beside the optimizer's state what is trained on") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"train.steps=4", "checkpoint.every=1", "checkpoint.keep=9",
                                              "train.eval_every=2"};
  TestRun plain(small_experiment, folder.path("plain"), overrides);
  REQUIRE(plain() == RunStatus::done);
  std::vector<std::string> averaging = overrides;
  averaging.emplace_back("average={type: ema, decay: 0.75}");
  TestRun averaged(small_experiment, folder.path("averaged"), averaging);
  averaged.num_warnings = 1;  // of so few steps
  REQUIRE(averaged() == RunStatus::done);

  // Training itself is the same, bit for bit; the averages follow its weights by the formula.
  Tensors expected;
  for (std::int64_t step = 1; step <= 4; ++step) {
    INFO("step " << step);
    CHECK(averaged.events.steps[static_cast<std::size_t>(step - 1)].loss ==
          plain.events.steps[static_cast<std::size_t>(step - 1)].loss);
    const Tensors weights = tensors_of(folder.path("plain"), step, "model.safetensors");
    const Tensors model = tensors_of(folder.path("averaged"), step, "model.safetensors");
    const Tensors state = tensors_of(folder.path("averaged"), step, "optimizer.safetensors");
    REQUIRE(model.size() == weights.size());
    for (const auto& [name, values] : weights) {
      INFO(name);
      CHECK(state.at(name + ".unaveraged") == values);
      std::vector<float>& mean = expected[name];
      mean.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        mean[i] = step == 1 ? values[i] : mean[i] + 0.25F * (values[i] - mean[i]);
      for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(model.at(name)[i] == Approx(mean[i]).margin(1e-6));
    }
  }
  REQUIRE(averaged.events.evaluations.size() == 2);
  CHECK(averaged.events.evaluations[0].averaged);
  CHECK_FALSE(plain.events.evaluations[0].averaged);
  CHECK(averaged.events.evaluations[0].loss != plain.events.evaluations[0].loss);
}

TEST_CASE("What evaluations find of the averages is what a run that begins with them finds, in 16 bit, too") {
  const std::string amp = GENERATE("off", "bf16", "fp16");
  const OutputFolder folder;
  TestRun averaged(small_experiment, folder.path("averaged"),
                   {"train.steps=6", "train.eval_every=3", "average={type: ema, decay: 0.5}", "train.amp=" + amp});
  REQUIRE(averaged() == RunStatus::done);
  TestRun evaluation(small_experiment, folder.path("evaluation"),
                     {"train.steps=0", "weights.file=" + folder.path("averaged"), "train.amp=" + amp});
  REQUIRE(evaluation() == RunStatus::done);
  REQUIRE(evaluation.events.evaluations.size() == 1);
  const std::vector<EvalEvent>& evaluations = averaged.events.evaluations;
  const std::size_t best = evaluations[1].best ? 1 : 0;  // that `weights` takes
  CHECK(evaluation.events.evaluations[0].loss == evaluations[best].loss);
}

TEST_CASE("A run with averages that is stopped and resumed ends as one that was not, bit for bit") {
  const OutputFolder folder;
  const std::string average = GENERATE("{type: ema, decay: 0.8}", "{type: swa, every: 3}", "{type: swa, after: 1ep}");
  const std::string amp = GENERATE("off", "fp16");
  const std::vector<std::string> overrides = {"train.steps=16", "average=" + average, "train.amp=" + amp};
  TestRun whole(small_experiment, folder.path("whole"), overrides);
  REQUIRE(whole() == RunStatus::done);
  TestRun first(small_experiment, folder.path("halves"), overrides);
  first.events.interrupt_after = 7;
  REQUIRE(first() == RunStatus::interrupted);
  TestRun second(small_experiment, folder.path("halves"), overrides);
  second.options.resume = true;
  REQUIRE(second() == RunStatus::done);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    CHECK((file_bytes(RunDirectory(folder.path("whole")).checkpoint_path(16) + "/" + file) ==
           file_bytes(RunDirectory(folder.path("halves")).checkpoint_path(16) + "/" + file)));
  CHECK(second.events.evaluations.back().loss == whole.events.evaluations.back().loss);
}

TEST_CASE("Averages that hold one step, none, or mostly the first are warned of") {
  const OutputFolder folder;
  TestRun none(small_experiment, folder.path("none"), {"train.steps=3", "average={type: ema, after: 3}"});
  none.num_warnings = 1;
  REQUIRE(none() == RunStatus::done);
  CHECK_THAT(none.events.warnings[0].message, Contains("of 3 steps none counts in the average of the weights"));
  TestRun one(small_experiment, folder.path("one"), {"train.steps=5", "average=swa"});
  one.num_warnings = 1;
  REQUIRE(one() == RunStatus::done);
  CHECK_THAT(one.events.warnings[0].message, Contains("of 5 steps one alone counts"));
  TestRun slow(small_experiment, folder.path("slow"), {"train.steps=9", "average={type: ema, decay: 0.95}"});
  slow.num_warnings = 1;
  REQUIRE(slow() == RunStatus::done);
  CHECK_THAT(slow.events.warnings[0].message,
             Contains("still 66 % those of the first that counts") && Contains("average.decay, to 0.6 say"));
}
