#include "tests/whole_runs/device_checks.h"

#include <cmath>

#include "engine/plan/capacity.h"
#include "engine/program/compile.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

namespace {

constexpr const char* every_layer = R"(
name: every-layer
seed: 3
data: {type: synthetic, shape: [8, 8, 3], classes: 6, samples: 40, validation_samples: 10}
model:
  layers:
    - conv2d: {out: 8, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - residual:
        layers: [{conv2d: {out: 12, kernel: 3, padding: 1, stride: 2}}, batchnorm2d, silu]
        shortcut: [{conv2d: {out: 12, kernel: 1, stride: 2}}]
    - relu
    - residual: {layers: [{conv2d: {out: 12, kernel: 3, padding: 1}}, batchnorm2d]}
    - relu
    - conv2d: {out: 12, kernel: 1}
    - groupnorm: {groups: 4}
    - relu
    - conv2d: {out: 12, kernel: 1}
    - instancenorm2d: {affine: true}
    - maxpool2d: {kernel: 2}
    - upsample: {scale: 2, mode: bilinear}
    - conv_transpose2d: {out: 10, kernel: 3, stride: 2, padding: 1, output_padding: 1}
    - pad: {size: [1, 0, 2, 1], mode: reflect}
    - avgpool2d: {kernel: 2, stride: 1}
    - adaptive_avgpool2d: {size: [3, 2]}
    - dropout: {p: 0.2}
    - flatten
    - linear: {out: 20}
    - residual: {layers: [{linear: {out: 20}}]}
    - residual: {layers: [layernorm, {linear: {out: 20}}]}
    - residual: {layers: [rmsnorm, {linear: {out: 20}}]}
    - gelu
    - linear: {out: 10}
    - gelu: {approximate: tanh}
    - linear: {out: 9}
    - batchnorm1d
    - relu
    - linear: {out: 8}
    - tanh
    - linear: {out: 6}
    - sigmoid
    - linear: {out: 6}
loss: {type: cross_entropy, class_weights: [1, 2, 1, 1, 0.5, 1], label_smoothing: 0.1}
optimizer: {type: adamw, lr: 0.01}
schedule: {type: one_cycle}
train: {batch_size: 8, steps: 12, clip_norm: 1}
)";

RunStatus run_on(TestRun& run, Device& device) { return run(device); }

void check_steps(const TestRun& run, Device& device) {
  const Program program = compile(run.experiment, run.data.description, device);
  const RunSchedule schedule(run.experiment, run.data.description);
  const MemoryPlan plan =
      make_memory_plan(program, schedule, run_capacity(run.experiment, run.data.description, device, true));
  REQUIRE(plan.fits);
  for (const StepEvent& event : run.events.steps) {
    INFO("step " << event.step);
    const StepMemory* planned = plan.find(event.step, false);
    REQUIRE(planned != nullptr);
    CHECK(*planned == event.memory.step);
  }
  for (const EvalEvent& event : run.events.evaluations) {
    INFO("evaluation after step " << event.step);
    const StepMemory* planned = plan.find(event.step, true);
    REQUIRE(planned != nullptr);
    CHECK(*planned == event.memory.step);
  }
  REQUIRE(run.events.ends.size() == 1);
  CHECK(run.events.ends[0].peak_requested == plan.peak_requested);
  CHECK(run.events.ends[0].peak_allocated == plan.peak_allocated);
  CHECK(run.events.ends[0].peak_reserved == plan.peak_reserved);
}

}  // namespace

void check_plan_equals_run(Device& device) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"train.accumulation_steps=2", "train.eval_every=3"},
      {"train.batch_size=7", "train.eval_batch_size=3", "data.drop_last=true"},
      {"optimizer={type: sgd, lr: 0.01, momentum: 0.9}", "train.clip_norm=0", "memory.workspace_limit=0"},
      {"memory.allocator=planned", "train.eval_every=3"},
      {"memory.allocator=planned", "train.accumulation_steps=3", "train.batch_size=5"},
      {"train.amp=fp16", "train.accumulation_steps=2", "train.checkpointing={every: 3}", "train.steps=4"},
      {"average={type: ema, decay: 0.5}", "train.eval_every=3", "train.accumulation_steps=2"},
      {"average={type: swa, every: 2}", "train.amp=bf16", "memory.allocator=planned", "train.eval_every=5"},
      {"average={type: ema, decay: 0.5}", "memory.update=in_backward", "train.clip_norm=0", "train.steps=5"},
      {"train.steps=0"},
      {"train.steps=0", "memory.allocator=planned"},
  };
  for (const std::vector<std::string>& overrides : variants) {
    const OutputFolder folder;
    TestRun run(every_layer, folder.path("run"), overrides);
    REQUIRE(run_on(run, device) == RunStatus::done);
    check_steps(run, device);
  }
}

void check_losses_of_cpu(Device& device, const std::vector<std::string>& overrides) {
  const OutputFolder folder;
  TestRun here(every_layer, folder.path("here"), overrides);
  TestRun on_cpu(every_layer, folder.path("cpu"), overrides);
  REQUIRE(run_on(here, device) == RunStatus::done);
  REQUIRE(on_cpu() == RunStatus::done);
  REQUIRE(here.events.steps.size() == on_cpu.events.steps.size());
  for (std::size_t i = 0; i < here.events.steps.size(); ++i) {
    INFO("step " << i + 1);
    CHECK(here.events.steps[i].loss == Approx(on_cpu.events.steps[i].loss).epsilon(1e-3));
  }
  REQUIRE(here.events.evaluations.size() == on_cpu.events.evaluations.size());
  for (std::size_t i = 0; i < here.events.evaluations.size(); ++i)
    CHECK(here.events.evaluations[i].loss == Approx(on_cpu.events.evaluations[i].loss).epsilon(1e-3));
}

void check_shipped_models(Device& device) {
  struct Model {
    const char* name;
    const char* with;
    const char* data;
  };
  const char* const images = "shape: [32, 32, 3], classes: 5";
  const char* const pixels = "shape: [32, 32, 3], target_shape: [32, 32], classes: 5";
  const char* const tokens = "sequence_length: 12, classes: 23";
  const char* const documents = "sequence_length: 12, classes: 5, document_token: 3";
  const std::vector<Model> models = {
      {"mlp", "width: 9, depth: 2, classes: 5", "shape: [7], classes: 5"},
      {"resnet", "depth: 18, width: 4, classes: 5, stem: cifar", images},
      {"resnet", "depth: 50, width: 8, classes: 5, stem: cifar", images},
      {"vgg16", "width: 2, hidden: 8, classes: 5", images},
      {"mobilenetv2", "width: 8, classes: 5, stem: cifar", images},
      {"unet", "width: 2, depth: 3, classes: 5", pixels},
      {"unet", "width: 3, depth: 1, classes: 5, up: bilinear", pixels},
      {"unet_resnet", "width: 4, depth: 18, classes: 5", pixels},
      {"gpt2", "depth: 2, width: 24, heads: 3, vocabulary: 23, length: 16, dropout: 0.1", tokens},
      {"llama", "depth: 2, width: 32, hidden: 40, heads: 4, kv_heads: 2, vocabulary: 23, tied: true", tokens},
      {"llama", "depth: 1, width: 24, hidden: 17, heads: 3, kv_heads: 1, vocabulary: 23, tied: false", tokens},
      {"qwen3", "depth: 2, width: 20, hidden: 24, heads: 4, kv_heads: 2, head_width: 6, vocabulary: 23, tied: true",
       tokens},
      {"bert", "depth: 2, width: 24, heads: 3, vocabulary: 23, length: 16, dropout: 0.1", tokens},
      {"gpt2", "depth: 2, width: 24, heads: 3, vocabulary: 5, length: 12, dropout: 0.1", documents},
      {"bert", "depth: 1, width: 24, heads: 2, vocabulary: 5, length: 12, dropout: 0", documents},
      {"vit", "depth: 2, width: 24, heads: 3, patch: 8, image: 32, classes: 5, dropout: 0.1", images},
  };
  const OutputFolder folder;
  for (const Model& model : models) {
    INFO(model.name << " with " << model.with);
    const std::string yaml =
        std::string("name: model\nseed: 5\ndata: {type: synthetic, samples: 7, validation_samples: 3, ") + model.data +
        "}\nmodel: {file: " TRAINER_SOURCE_DIR "/configs/models/" + model.name + ".yaml, with: {" + model.with +
        "}}\noptimizer: {type: sgd, lr: 0.001, momentum: 0.9}\ntrain: {batch_size: 4, steps: 2}\n";
    TestRun here(yaml, folder.path("here")), on_cpu(yaml, folder.path("cpu"));
    here.options.overwrite = on_cpu.options.overwrite = true;
    REQUIRE(run_on(here, device) == RunStatus::done);
    REQUIRE(on_cpu() == RunStatus::done);
    check_steps(here, device);
    // In a third step the CPU itself differs by a percent between one thread and two: many layers of few channels make
    // much of rounding.
    REQUIRE(here.events.steps.size() == 2);
    for (std::size_t i = 0; i < here.events.steps.size(); ++i) {
      INFO("step " << i + 1);
      CHECK(here.events.steps[i].loss == Approx(on_cpu.events.steps[i].loss).epsilon(2e-3));
    }
  }
}

void check_frozen_network(Device& device) {
  const std::string yaml =
      "name: features\nseed: 5\n"
      "data: {type: synthetic, shape: [4, 4, 2], target_type: numeric, target_shape: [8, 8, 2], samples: 11, "
      "validation_samples: 4}\n"
      "model: {layers: [conv2d: {out: 6, kernel: 3, padding: 1}, relu, upsample: {scale: 2}, "
      "conv2d: {out: 2, kernel: 3, padding: 1}]}\n"
      "loss:\n"
      "  - l1\n"
      "  - type: feature\n"
      "    weight: 0.5\n"
      "    network:\n"
      "      layers: [sequential: {name: features, layers: [conv2d: {out: 4, kernel: 3, padding: 1, bias: false}, "
      "batchnorm2d, relu, maxpool2d: {kernel: 2}, conv2d: {out: 6, kernel: 3, padding: 1}]}]\n"
      "      weights: {file: " TRAINER_SOURCE_DIR
      "/tests/techniques/feature_network.safetensors}\n"
      "    layers: [features.2, features.4]\n"
      "    mean: 0.4\n"
      "    std: [0.2, 0.3]\n"
      "optimizer: {type: sgd, lr: 0.01, momentum: 0.9}\n"
      "train: {batch_size: 4, steps: 4}\n";
  const OutputFolder folder;
  for (const char* const amp : {"off", "bf16"}) {
    const std::string set = std::string("train.amp=") + amp;
    TestRun here(yaml, folder.path("here"), {set}), on_cpu(yaml, folder.path("cpu"), {set});
    here.options.overwrite = on_cpu.options.overwrite = true;
    REQUIRE(run_on(here, device) == RunStatus::done);
    REQUIRE(on_cpu() == RunStatus::done);
    check_steps(here, device);
    REQUIRE(here.events.steps.size() == 4);
    for (std::size_t i = 0; i < here.events.steps.size(); ++i) {
      INFO(set << ", step " << i + 1);
      CHECK(here.events.steps[i].loss ==
            Approx(on_cpu.events.steps[i].loss).epsilon(here.experiment.train.amp == Amp::off ? 1e-4 : 2e-2));
    }
  }
}

void check_memory_techniques(Device& device) {
  const OutputFolder folder;
  const auto train = [&](const std::string& name, std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"train.steps=4", "train.clip_norm=0", "train.eval_every=4"});
    auto run = std::make_unique<TestRun>(every_layer, folder.path(name), std::move(overrides));
    REQUIRE(run_on(*run, device) == RunStatus::done);
    check_steps(*run, device);
    return run;
  };
  const auto plain = train("plain", {});
  const std::vector<std::vector<std::string>> exact = {
      {"train.checkpointing=sqrt", "memory.allocator=planned"},
      {"train.checkpointing={layers: ['*']}", "memory.in_place=false"},
      {"memory.recompute_cheap=false", "memory.update=in_backward"},
  };
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO(exact[i].front());
    const std::string name = "exact" + std::to_string(i);
    train(name, exact[i]);
    CHECK(same_file(folder, name, "plain", 4, "model.safetensors"));
  }
  const std::vector<std::vector<std::string>> rounded = {
      {"train.amp=fp16", "memory.gradients=16bit"},
      {"train.amp=bf16", "memory.master_weights=false", "memory.moments=8bit", "memory.chunked_loss=3"},
  };
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    INFO(rounded[i].front());
    const auto run = train("rounded" + std::to_string(i), rounded[i]);
    for (std::size_t step = 0; step < run->events.steps.size(); ++step)
      CHECK(run->events.steps[step].loss == Approx(plain->events.steps[step].loss).epsilon(0.1));
  }
}

void check_replays(Device& device) {
  const OutputFolder folder;
  TestRun replayed(every_layer, folder.path("replayed"));
  TestRun queued(every_layer, folder.path("queued"), {"device.cuda_graph=false"});
  const bool has_branches = device.has_branches();  // before a recording could be refused for them
  REQUIRE(run_on(replayed, device) == RunStatus::done);
  REQUIRE(run_on(queued, device) == RunStatus::done);
  const PassCounts& passes = replayed.events.ends.at(0).passes;
  CHECK(passes.obstacle.empty());
  CHECK(passes.replayed >= 8);
  CHECK(passes.replayed + passes.moved == passes.total);
  CHECK((passes.branches > 0) == has_branches);
  CHECK(queued.events.ends.at(0).passes.replayed == 0);
  CHECK_FALSE(queued.events.ends.at(0).passes.obstacle.empty());
  REQUIRE(replayed.events.steps.size() == queued.events.steps.size());
  for (std::size_t i = 0; i < replayed.events.steps.size(); ++i)
    CHECK(replayed.events.steps[i].loss == queued.events.steps[i].loss);
  CHECK(same_file(folder, "replayed", "queued", 12, "model.safetensors"));

  // With planned places nothing moves: only the first pass of each kind is queued by itself.
  TestRun planned(every_layer, folder.path("planned"), {"memory.allocator=planned"});
  REQUIRE(run_on(planned, device) == RunStatus::done);
  const PassCounts& placed = planned.events.ends.at(0).passes;
  const Program program = compile(planned.experiment, planned.data.description, device);
  const auto num_kinds = static_cast<std::int64_t>(program.micro_batches.size() + program.evaluations.size());
  CHECK(placed.moved <= num_kinds);
  CHECK(placed.replayed == placed.total - placed.moved);
  CHECK(same_file(folder, "planned", "replayed", 12, "model.safetensors"));
}

void check_out_of_memory_leaves_nothing(Device& device) {
  const OutputFolder folder;
  // Whose fixes are found at once.
  constexpr const char* few_layers = R"(
data: {type: synthetic, shape: [8, 8, 3], classes: 6}
model: {layers: [{conv2d: {out: 24, kernel: 3, padding: 1}}, batchnorm2d, relu, flatten, {linear: {out: 6}}]}
optimizer: {type: adamw, lr: 0.001}
train: {steps: 12}
)";
  // A first failure loads what the device loads once.
  std::int64_t available = 0;
  for (int i = 0; i <= 100; ++i) {
    TestRun run(i % 10 == 0 ? every_layer : few_layers, folder.path("run"),
                {"memory.limit=2MiB", "memory.preflight=off", "train.batch_size=300", "data.samples=300"});
    run.options.overwrite = true;
    REQUIRE(run_on(run, device) == RunStatus::out_of_memory);
    REQUIRE(run.events.failures.size() == 1);
    if (i == 0) available = device.available_bytes();
  }
  if (device.kind() == "cuda" && device.name() != "emulated GPU") CHECK(device.available_bytes() == available);
  TestRun fitting(every_layer, folder.path("fitting"), {"train.steps=2"});
  CHECK(run_on(fitting, device) == RunStatus::done);
}

void check_synchronous_run(Device& device) {
  const OutputFolder folder;
  TestRun waiting(every_layer, folder.path("waiting"));
  waiting.options.debug_sync = true;
  TestRun queued(every_layer, folder.path("queued"));
  REQUIRE(run_on(waiting, device) == RunStatus::done);
  REQUIRE(run_on(queued, device) == RunStatus::done);
  CHECK(waiting.events.ends.at(0).passes.obstacle == "--debug-sync");
  CHECK(same_file(folder, "waiting", "queued", 12, "model.safetensors"));
}

void check_divergence(Device& device) {
  const OutputFolder folder;
  constexpr const char* yaml = R"(
seed: 1
data: {type: synthetic, shape: [2], samples: 20, target_type: numeric, shuffle: false}
model: {init: kaiming_normal, layers: [{linear: {out: 64, name: first}}, silu, {linear: {out: 1}}]}
loss: mse
optimizer: {type: sgd, lr: 0.01}
train: {batch_size: 2, steps: 30}
)";
  TestRun here(yaml, folder.path("here"));
  TestRun on_cpu(yaml, folder.path("cpu"));
  // Of 64 weights with deviation 1 some exceed 1.2, and 3e38 · 1.2 exceeds the largest float.
  here.data = on_cpu.data = numbers_with(3e38F, 5);
  REQUIRE(run_on(here, device) == RunStatus::diverged);
  REQUIRE(on_cpu() == RunStatus::diverged);
  REQUIRE(here.events.divergences.size() == 1);
  const DivergedEvent &event = here.events.divergences[0], &expected = on_cpu.events.divergences.at(0);
  CHECK(event.step == 3);
  CHECK(event.step == expected.step);
  CHECK(event.layer == expected.layer);
  CHECK(event.tensor == expected.tensor);
}

void check_lost_weights_end_runs(Device& device) {
  constexpr const char* yaml = R"(
seed: 1
data: {type: synthetic, shape: [6], classes: 4, samples: 64}
model: {layers: [{linear: {out: 64, name: first}}, relu, {linear: {out: 4, name: last}}]}
optimizer: {type: sgd, lr: 3e38, weight_decay: 100}
schedule: {type: constant}
train: {batch_size: 8, steps: 8}
)";
  for (const std::vector<std::string>& overrides : {std::vector<std::string>{},
                                                    {"train.accumulation_steps=2"},
                                                    {"memory.update=in_backward"},
                                                    {"optimizer.momentum=0.9", "train.clip_norm=1e6"},
                                                    {"train.amp=bf16", "memory.master_weights=false"}}) {
    const OutputFolder folder;
    TestRun here(yaml, folder.path("here"), overrides), on_cpu(yaml, folder.path("cpu"), overrides);
    INFO((overrides.empty() ? "" : overrides.front()));
    REQUIRE(run_on(here, device) == RunStatus::diverged);
    REQUIRE(on_cpu() == RunStatus::diverged);
    REQUIRE(here.events.divergences.size() == 1);
    const DivergedEvent &event = here.events.divergences[0], &expected = on_cpu.events.divergences.at(0);
    CHECK(event.step == 1);
    CHECK(std::isfinite(event.loss));
    CHECK(event.step == expected.step);
    CHECK(event.layer == expected.layer);
    CHECK(event.tensor == expected.tensor);
    CHECK(here.events.steps.empty());
    CHECK(event.layer.find("first") != std::string::npos);
  }
}

}  // namespace trainer
