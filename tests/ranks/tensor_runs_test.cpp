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
  // Each rank searches a budget for its own part: under these limits they find others.
  constexpr const char* model = R"(
name: budgets
device: {type: cpu, threads: 1}
data: {type: synthetic, sequence_length: 32, classes: 25, samples: 40, validation_samples: 8}
model:
  layers:
    - embedding: {num: 25, dim: 64, name: wte}
    - position_embedding: {length: 32}
    - dropout: {p: 0.1}
    - repeat:
        times: 2
        layers:
          - residual: {layers: [layernorm, {linear: {out: 192}}, {attention: {heads: 4, causal: true}}, {linear: {out: 64}}, {dropout: {p: 0.1}}]}
          - residual: {layers: [layernorm, {linear: {out: 256}}, gelu, {linear: {out: 64}}, {dropout: {p: 0.1}}]}
    - layernorm
    - linear: {out: 25}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 8, steps: 3, eval_every: 0}
)";
  const OutputFolder folder;
  const RankRun one = run_ranks(1, model, folder.path("one"), {}).front();
  REQUIRE(one.status == RunStatus::done);
  int num_done = 0;
  for (const std::int64_t limit : {1'504'100, 1'536'900, 1'541'000, 1'573'800, 1'610'700, 1'700'000}) {
    INFO(limit);
    const std::vector<RankRun> ranks =
        run_ranks(2, model, folder.path(std::to_string(limit)),
                  {"train.checkpointing=auto", "memory.limit=" + std::to_string(limit)}, {.num_tensor = 2});
    if (ranks[0].status == RunStatus::out_of_memory) continue;
    ++num_done;
    for (const RankRun& run : ranks) {
      REQUIRE(run.steps.size() == one.steps.size());
      for (std::size_t i = 0; i < one.steps.size(); ++i)
        CHECK(run.steps[i].loss == Approx(one.steps[i].loss).epsilon(2e-5));
    }
  }
  CHECK(num_done > 3);
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
