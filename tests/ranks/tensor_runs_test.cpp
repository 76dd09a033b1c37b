#include "tests/ranks/deterministic_cases.h"
#include "tests/ranks/pipeline_cases.h"
#include "tests/ranks/tensor_cases.h"

// Whole runs of ranks that share layers (Note [Cut layers] in engine/program/tensor/cut_layers.h), beside one process,
// and beside their plans.

using namespace trainer;

namespace {

struct TensorLayout {
  int num_ranks = 2, num_tensor = 2, num_stages = 1;
  const char* shard = "none";
};

std::vector<RankRun> run_layout(const RankCase& each, const TensorLayout& layout, const std::string& output,
                                const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = with_overrides(each.overrides, more);
  overrides.push_back(std::string("parallel.shard=") + layout.shard);
  return run_ranks(layout.num_ranks, each.yaml, output, overrides,
                   {.num_stages = layout.num_stages, .num_tensor = layout.num_tensor});
}

std::string name_of(const TensorLayout& layout) {
  return std::to_string(layout.num_ranks) + "_" + std::to_string(layout.num_tensor) + "_" +
         std::to_string(layout.num_stages) + layout.shard;
}

}  // namespace

TEST_CASE("ranks that share layers train as one process does, to rounding, in their plans") {
  for (const RankCase& each : tensor_cases()) {
    const OutputFolder folder;
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), each.overrides).front();
    REQUIRE(one.status == RunStatus::done);
    for (const TensorLayout& layout :
         {TensorLayout{2, 2}, TensorLayout{4, 4}, TensorLayout{4, 2}, TensorLayout{4, 2, 1, "optimizer"},
          TensorLayout{4, 2, 1, "gradients"}, TensorLayout{4, 2, 1, "parameters"}}) {
      INFO(each.name << ", " << name_of(layout));
      check_against_one(run_layout(each, layout, folder.path(name_of(layout))), one, each.tolerance);
    }
  }
}

TEST_CASE("ranks that share layers train as one process does, whatever each of them finds to compute again") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"data.sequence_length=32", "train.steps=3", "train.eval_every=0"};
  const RankRun one = run_ranks(1, rows_model, folder.path("one"), overrides).front();
  REQUIRE(one.status == RunStatus::done);
  int num_fitting = 0;
  // Each rank searches its budget for its own part, under limits at which the two find others.
  for (std::int64_t limit = 400'000; limit < 800'000; limit += 16'000) {
    INFO(limit);
    std::vector<RankRun> ranks;
    try {
      ranks = run_ranks(2, rows_model, folder.path(std::to_string(limit)),
                        with_overrides(overrides, {"train.checkpointing=auto", "memory.allocator=planned",
                                                   "memory.limit=" + std::to_string(limit)}),
                        {.num_tensor = 2});
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Matchers::Contains("emory"));
      continue;
    }
    if (ranks[0].status != RunStatus::done) continue;
    ++num_fitting;
    for (const RankRun& run : ranks) {
      REQUIRE(run.steps.size() == one.steps.size());
      for (std::size_t i = 0; i < one.steps.size(); ++i)
        CHECK(run.steps[i].loss == Approx(one.steps[i].loss).epsilon(2e-5));
    }
  }
  CHECK(num_fitting > 3);
}

TEST_CASE("stages of a pipeline whose layers ranks share train as one process does") {
  for (const RankCase& each : tensor_cases()) {
    if (each.yaml == text_model) continue;
    const OutputFolder folder;
    const RankRun one =
        run_ranks(1, each.yaml, folder.path("one"), with_overrides(each.overrides, {"parallel.micro_batches=4"}))
            .front();
    REQUIRE(one.status == RunStatus::done);
    for (const TensorLayout& layout : {TensorLayout{4, 2, 2}, TensorLayout{8, 2, 2}}) {
      INFO(each.name << ", " << name_of(layout));
      check_against_one(run_layout(each, layout, folder.path(name_of(layout)),
                                   {layout.num_ranks == 4 ? "parallel.micro_batches=4" : "parallel.micro_batches=2"}),
                        one, each.tolerance);
    }
  }
}

TEST_CASE("a run of ranks that share layers goes on with any other layout, also from files of all of them") {
  for (const char* sharded : {"false", "true"}) {
    const OutputFolder folder;
    const RankRun whole = run_ranks(1, tied_model, folder.path("whole"), {}).front();
    struct Change {
      TensorLayout from, to;
    };
    for (const auto& [from, to] :
         {Change{{2, 2}, {1, 1}}, Change{{1, 1}, {2, 2}}, Change{{4, 4}, {4, 2, 1, "parameters"}},
          Change{{4, 2, 1, "gradients"}, {2, 1, 2}}, Change{{4, 2, 2}, {2, 2}}}) {
      const std::string name = name_of(from) + " to " + name_of(to);
      INFO(name << ", sharded " << sharded);
      std::vector<std::string> overrides = {std::string("checkpoint.sharded=") + sharded};
      overrides.emplace_back("parallel.micro_batches=1");  // whose dropout would have other passes
      const auto run = [&](const TensorLayout& layout, const RankRunOptions& options) {
        std::vector<std::string> of_layout = overrides;
        of_layout.push_back(std::string("parallel.shard=") + layout.shard);
        RankRunOptions all = options;
        all.num_stages = layout.num_stages;
        all.num_tensor = layout.num_tensor;
        return run_ranks(layout.num_ranks, tied_model, folder.path(name), of_layout, all);
      };
      const std::vector<RankRun> begun = run(from, {.interrupt_after = 5}), resumed = run(to, {.resume = true});
      CHECK(begun[0].steps.size() + resumed[0].steps.size() == whole.steps.size());
      for (const RankRun& each_rank : resumed)
        for (const StepEvent& step : each_rank.steps)
          CHECK(step.loss == Approx(whole.steps[static_cast<std::size_t>(step.step) - 1].loss).epsilon(2e-5));
    }
  }
}
