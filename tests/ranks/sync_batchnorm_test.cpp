#include <algorithm>
#include <cmath>
#include <map>

#include "engine/plan/communication_order.h"
#include "engine/program/routine_walk.h"
#include "engine/train/files/safetensors.h"
#include "tests/ranks/rank_runs.h"

// parallel.sync_batchnorm: batch norms that go by the batch of all ranks.

using namespace trainer;

namespace {

/// Values of a file's tensors, by name.
std::map<std::string, std::vector<float>> tensors_of(const OutputFolder& folder, const std::string& run, int step) {
  const SafetensorsFile file(checkpoint_file(folder.path(run), step, "model.safetensors"));
  std::map<std::string, std::vector<float>> tensors;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    if (file.tensors()[i].type.dtype != DType::f32) continue;
    std::vector<float>& values = tensors[file.tensors()[i].name];
    values.resize(static_cast<std::size_t>(file.tensors()[i].type.num_elements()));
    file.read(i, reinterpret_cast<std::byte*>(values.data()));
  }
  return tensors;
}

void check_tensors(const std::map<std::string, std::vector<float>>& of_ranks,
                   const std::map<std::string, std::vector<float>>& of_one, double tolerance) {
  REQUIRE(of_ranks.size() == of_one.size());
  CHECK(of_one.contains("1.running_var"));
  for (const auto& [name, expected] : of_one) {
    INFO(name);
    const std::vector<float>& values = of_ranks.at(name);
    REQUIRE(values.size() == expected.size());
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
      difference = std::max(difference, std::abs(static_cast<double>(values[i]) - static_cast<double>(expected[i])));
    }
    CHECK(difference <= tolerance * (1 + largest));
  }
}

const std::vector<std::string> synced = {"parallel.sync_batchnorm=true"};

std::vector<std::string> with(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

Program program_of(std::int64_t num_ranks, std::int64_t rank, const std::vector<std::string>& overrides,
                   std::uint64_t* order = nullptr) {
  const OutputFolder folder;
  TestRun run(norms_model, folder.path("run"), with(overrides, {"parallel.data=" + std::to_string(num_ranks)}));
  run.experiment.parallel.rank = rank;
  Program program = compile(run.experiment, run.data.description, *make_cpu_device(1));
  if (order != nullptr) *order = communication_order(program, RunSchedule(run.experiment, run.data.description));
  return program;
}

std::int64_t num_calls(const Program& program, const Routine& routine, OpKind kind) {
  std::int64_t count = 0;
  for_each_call(program, routine, [&](const OpCall& call) { count += call.op.kind == kind ? 1 : 0; });
  return count;
}

}  // namespace

TEST_CASE("with batch norms over all ranks, they train as one process does, to rounding, statistics included") {
  for (const RankCase& each : norm_cases()) {
    const OutputFolder folder;
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), with(each.overrides, synced)).front();
    REQUIRE(one.status == RunStatus::done);
    const auto last_step = static_cast<int>(one.steps.back().step);
    for (const int num_ranks : {2, 3, 8}) {
      INFO(each.name << ", " << num_ranks << " ranks");
      const std::string name = std::to_string(num_ranks);
      const std::vector<RankRun> ranks =
          run_ranks(num_ranks, each.yaml, folder.path(name), with(each.overrides, synced));
      check_against_one(ranks, one, each.tolerance);
      check_tensors(tensors_of(folder, name, last_step), tensors_of(folder, "one", last_step), each.tolerance);
    }
  }
}

TEST_CASE("batch norms over a rank's part are others than over all ranks") {
  const OutputFolder folder;
  const RankRun own = run_ranks(2, norms_model, folder.path("own"), {}).front();
  const RankRun all = run_ranks(2, norms_model, folder.path("all"), synced).front();
  CHECK(own.steps[0].loss != Approx(all.steps[0].loss).epsilon(1e-4));
}

TEST_CASE("with one rank, or without a batch norm, parallel.sync_batchnorm changes no bit") {
  const OutputFolder folder;
  for (const bool on : {false, true}) {
    const std::vector<std::string> overrides = {std::string("parallel.sync_batchnorm=") + (on ? "true" : "false")};
    run_ranks(1, norms_model, folder.path(on ? "one synced" : "one"), overrides);
    run_ranks(2, without_norms, folder.path(on ? "two synced" : "two"), overrides);
  }
  CHECK(same_file(folder, "one", "one synced", 12, "model.safetensors"));
  CHECK(same_file(folder, "two", "two synced", 12, "model.safetensors"));
}

TEST_CASE("what is computed again, shared, placed or offloaded changes no bit of batch norms over ranks") {
  const OutputFolder folder;
  for (const int num_ranks : {2, 3}) {
    const std::string n = std::to_string(num_ranks);
    // 2 samples are left over at the end of an epoch, which some of three ranks lack.
    const std::vector<std::string> base = with(synced, {"data.samples=38", "train.clip_norm=0"});
    const RankRun whole =
        run_ranks(num_ranks, norms_model, folder.path("whole" + n), with(base, {"memory.recompute_cheap=false"}))[0];
    int number = 0;
    for (const std::vector<std::string>& more :
         std::vector<std::vector<std::string>>{{},
                                               {"train.checkpointing=sqrt"},
                                               {"train.checkpointing={every: 1}"},
                                               {"train.checkpointing={layers: ['*']}"},
                                               {"train.checkpointing={budget: 68KiB}"},
                                               {"memory.allocator=planned"},
                                               {"memory.offload=['*']"},
                                               {"memory.in_place=false"},
                                               {"parallel.shard=optimizer"},
                                               {"parallel.shard=gradients"},
                                               {"parallel.shard=parameters"},
                                               {"parallel.shard=parameters", "train.checkpointing={every: 2}"}}) {
      INFO(num_ranks << " ranks, " << (more.empty() ? "as it is" : more.back()));
      const std::string name = n + "-" + std::to_string(++number);
      for (const RankRun& run : run_ranks(num_ranks, norms_model, folder.path(name), with(base, more))) {
        CHECK(run.mistake == "");
        REQUIRE(run.steps.size() == whole.steps.size());
        for (std::size_t i = 0; i < run.steps.size(); ++i) CHECK(run.steps[i].loss == whole.steps[i].loss);
      }
      CHECK(same_file(folder, "whole" + n, name, 12, "model.safetensors"));
    }
  }
}

TEST_CASE("batch norms over ranks are found once, and a rank without samples takes part in all of them") {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"train.checkpointing={every: 1}"}, {"parallel.shard=parameters"}}) {
    // Of the last 2 samples the third rank has none.
    const std::vector<std::string> overrides = with(with(synced, {"data.samples=38"}), more);
    std::uint64_t orders[3] = {};
    for (const std::int64_t rank : {0, 1, 2}) {
      const Program program = program_of(3, rank, overrides, &orders[rank]);
      REQUIRE(program.micro_batches.size() == 2);
      for (const Program::MicroBatch& micro_batch : program.micro_batches) {
        const bool has_samples = micro_batch.batch_size > 0;
        CHECK(has_samples == (rank < 2 || &micro_batch == &program.micro_batches.front()));
        CHECK(num_calls(program, micro_batch.first, OpKind::all_reduce) == 2 * num_norms);
        CHECK(num_calls(program, micro_batch.first, OpKind::batchnorm2d_statistics) == num_norms);
        CHECK(num_calls(program, micro_batch.first, OpKind::batchnorm2d_sums) == (has_samples ? num_norms : 0));
        CHECK((num_calls(program, micro_batch.first, OpKind::batchnorm2d_normalize) >= num_norms) == has_samples);
        CHECK(num_calls(program, micro_batch.first, OpKind::batchnorm2d) == 0);
      }
      // Evaluations go by running statistics.
      for (const Routine& evaluation : program.evaluations)
        CHECK(num_calls(program, evaluation, OpKind::all_reduce) == 0);
    }
    CHECK(orders[1] == orders[0]);
    CHECK(orders[2] == orders[0]);
  }
}

TEST_CASE("batch norms that keep their running statistics add nothing up over ranks") {
  const auto counts = [](const std::vector<std::string>& frozen) {
    const Program program = program_of(2, 0, with(synced, frozen));
    const Routine& routine = program.micro_batches.front().first;
    return std::pair(num_calls(program, routine, OpKind::batchnorm2d_statistics),
                     num_calls(program, routine, OpKind::all_reduce));
  };
  CHECK(counts({"freeze=['*', '!head']", "freeze_norms=on"}) == std::pair<std::int64_t, std::int64_t>(0, 0));
  CHECK(counts({"freeze=['0', '1']", "freeze_norms=on"}) ==
        std::pair<std::int64_t, std::int64_t>(num_norms - 1, 2 * (num_norms - 1)));
  // Those that go by their batches, but through which no gradient flows, add up forward alone.
  CHECK(counts({"freeze=['*', '!head']"}) == std::pair<std::int64_t, std::int64_t>(num_norms, num_norms));
}

TEST_CASE("a batch norm over ranks takes a rank's part of one sample, and refuses a batch of one with its place") {
  const auto refusal = [](std::int64_t num_ranks, std::int64_t rank, const std::vector<std::string>& overrides) {
    try {
      program_of(num_ranks, rank, overrides);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  // Nine samples on eight ranks: the first has two, the others one, which no norm of features takes alone.
  const OutputFolder folder;
  for (const RankRun& run : run_ranks(8, norms_model, folder.path("small parts"), with(synced, {"train.steps=2"})))
    CHECK(run.status == RunStatus::done);
  CHECK(contains(refusal(8, 1, {}), "parallel.sync_batchnorm: true"));
  for (const std::int64_t rank : {0, 1}) {
    const std::string message = refusal(2, rank, with(synced, {"data.samples=37"}));
    INFO(message);
    CHECK(contains(message, "odd last batch of one sample"));
    CHECK(contains(message, "test.yaml:17:7:"));
  }
  CHECK(refusal(2, 0, with(synced, {"data.samples=37", "data.drop_last=true"})) == "");
}
