#include "tests/ranks/deterministic_cases.h"
#include "tests/ranks/pipeline_cases.h"

// Whole runs of ranks that share layers (Note [Cut layers] in engine/program/tensor/cut_layers.h), beside one process,
// and beside their plans.

using namespace trainer;

namespace {

/// Pairs of layers with all that may stand between them, and layers that are not cut.
constexpr const char* gates_model = R"(
name: gates
seed: 9
data: {type: synthetic, shape: [6], classes: 4, samples: 45, validation_samples: 13}
model:
  layers:
    - linear: {out: 12}
    - relu
    - dropout: {p: 0.25}
    - linear: {out: 8, name: narrow}
    - layernorm
    - residual: {layers: [{linear: {out: 24}}, swiglu, {linear: {out: 8, bias: false}}]}
    - relu: {name: last}
    - linear: {out: 4, name: head}
optimizer: {type: adamw, lr: 0.01, weight_decay: 0.01}
schedule: {type: cosine, warmup_steps: 3}
train: {batch_size: 9, steps: 12, eval_every: 4, clip_norm: 1}
)";

std::vector<RankCase> tensor_cases() {
  return {
      {"gates", gates_model},
      {"accumulation", gates_model, {"train.accumulation_steps=3", "data.samples=40"}},
      {"planned places, computed again", gates_model, {"memory.allocator=planned", "train.checkpointing=sqrt"}},
      {"averages", gates_model, {"average=ema", "average.decay=0.9"}},
      {"fp16", gates_model, {"train.amp=fp16", "train.loss_scale.initial=64"}, 2e-2},
      {"bf16 with gradients of 16 bit", gates_model, {"train.amp=bf16", "memory.gradients=16bit"}, 1e-1},
      {"frozen in front", gates_model, {"freeze=['0', narrow]"}},
      {"text", text_model},
      {"a tied embedding", tied_model},
      {"a tied embedding, computed again", tied_model, {"train.checkpointing={every: 1}", "memory.offload=['*']"}},
      {"a tied embedding in 16 bits", tied_model, {"train.amp=bf16", "optimizer.lr=0.001"}, 3e-2},
      {"a vocabulary that is not divided evenly", text_model, {"data.classes=23", "model.layers.0.num=23"}},
  };
}

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
