#include <catch2/catch.hpp>

#include "engine/report/run/adaptation_report.h"
#include "engine/report/run/run_summary.h"
#include "engine/report/run/summary_table.h"
#include "tests/report/report_samples.h"

using namespace trainer;

TEST_CASE("the summary of a run tells accuracy, time, throughput, peaks and files") {
  EndEvent end;
  end.status = "done";
  end.steps = 1'200;
  end.seconds = 75;
  end.training_seconds = 10;
  end.samples = 38'400;
  end.loss = 0.0987;
  end.accuracy = 0.97777;
  end.top5 = 1.0;
  end.best_value = 0.0876;
  end.best_step = 1'100;
  end.peak_allocated = 3 << 20;
  end.peak_reserved = 22 << 20;
  end.peak_used = 60 << 20;
  end.peak_by_category[static_cast<std::size_t>(Category::parameter)] = 3 << 20;
  end.last_checkpoint = "runs/digits/checkpoints/step-1200";
  CHECK(run_summary(end, Metric::loss, "runs/digits/events.jsonl", {}) ==
        "\nDone after 1,200 steps in 1 min 15 s\n"
        "  accuracy    97.78 %, top-5 100.00 %, loss 0.0987 on the validation data\n"
        "  best        loss 0.0876 at step 1,100\n"
        "  speed       3,840 samples/s: 38,400 samples in 10.00 s of training\n"
        "  peak memory allocated 3.00 MiB, reserved 22.00 MiB, used 60.00 MiB\n"
        "  held by     parameter 3.00 MiB\n"
        "  checkpoint  runs/digits/checkpoints/step-1200\n"
        "  events      runs/digits/events.jsonl\n");
}

TEST_CASE("the summary of a run with stages has a row for each") {
  EndEvent end;
  end.status = "done";
  end.steps = 30;
  end.seconds = 3;
  end.stages = {{.name = "head",
                 .steps = 10,
                 .seconds = 1,
                 .consumed = 1 << 20,
                 .peak_allocated = 2 << 20,
                 .peak_reserved = 4 << 20,
                 .planned_peak_reserved = 4 << 20,
                 .loss = 0.5,
                 .accuracy = 0.75},
                {.name = "all",
                 .steps = 20,
                 .seconds = 2,
                 .consumed = 3 << 20,
                 .peak_allocated = 5 << 20,
                 .peak_reserved = 6 << 20}};
  Style style;
  style.width = 120;
  const std::string text = run_summary(end, Metric::loss, "", style);
  CHECK_THAT(
      text, Catch::Contains("  stage  steps    time  held at its end  peak allocated  peak reserved   planned    loss  "
                            "accuracy\n"));
  CHECK_THAT(text, Catch::Contains(
                       "  head      10  1.00 s         1.00 MiB        2.00 MiB       4.00 MiB  4.00 MiB  0.5000   "
                       "75.00 %\n"));
  CHECK_THAT(
      text, Catch::Contains("  all       20  2.00 s         3.00 MiB        5.00 MiB       6.00 MiB         -       -  "
                            "       -\n"));
}

TEST_CASE("the summary of a run on tokens tells their rate, all that were seen, and MFU where it is known") {
  EndEvent end;
  end.status = "done";
  end.training_seconds = 10;
  end.samples = 640;
  end.tokens = TokenCount{.trained = 40'960, .seen = 40'960};
  CHECK_THAT(run_summary(end, Metric::loss, "", {false, 200}),
             Catch::Contains("\n  speed       4,096 tokens/s, 64 samples/s: 640 samples in 10.00 s of training, 40,960 "
                             "tokens\n"));
  end.tokens = TokenCount{.trained = 40'960, .seen = 81'920, .mfu = 0.3125};
  CHECK_THAT(run_summary(end, Metric::loss, "", {false, 200}),
             Catch::Contains("40,960 tokens (81,920 since step 0); 31.2 % of the peak in FLOPs of the model (MFU)\n"));
}

TEST_CASE("the summary tells how long training waited for samples, where that matters") {
  EndEvent end;
  end.status = "done";
  end.training_seconds = 40;
  end.samples = 1;
  end.data_seconds = 1.9;
  CHECK_THAT(run_summary(end, Metric::loss, "", {}), !Catch::Contains("  data "));
  end.data_seconds = 10;
  CHECK_THAT(run_summary(end, Metric::loss, "", {}),
             Catch::Contains("\n  data        training waited for samples 25 % of that time (10.00 s)"));
  end.training_seconds = 1;
  end.data_seconds = 0.9;
  CHECK_THAT(run_summary(end, Metric::loss, "", {}), !Catch::Contains("  data "));
}

TEST_CASE("the summary names what lay outside the allocator") {
  EndEvent end;
  end.status = "done";
  end.peak_reserved = 1 << 20;
  end.outside_allocator = {{"CUDA context", 3 << 20}, {"library handles", 1 << 20}};
  CHECK_THAT(run_summary(end, Metric::loss, "", {}),
             Catch::Contains(
                 "\n  outside     4.00 MiB (CUDA context 3.00 MiB, library handles 1.00 MiB) when the run began\n"));
}

TEST_CASE("the summary names what the device had to do in another way") {
  EndEvent end;
  end.status = "done";
  end.device_notes = {"Convolutions are planned anew."};
  CHECK_THAT(run_summary(end, Metric::loss, "", {}),
             Catch::Contains("\n  device      Convolutions are planned anew.\n"));
}

TEST_CASE("a run that ended early says so first") {
  EndEvent end;
  end.status = "interrupted";
  end.steps = 1;
  CHECK_THAT(run_summary(end, Metric::accuracy, "", {}), Catch::StartsWith("\nInterrupted after 1 step in "));
  end.status = "oom";
  CHECK_THAT(run_summary(end, Metric::accuracy, "", {}), Catch::StartsWith("\nOut of memory after 1 step"));
}

TEST_CASE("the summary names every adaptation, and how many warnings there were") {
  EndEvent end;
  end.status = "done";
  end.steps = 9;
  end.adaptations = {{3, 8 << 20, {"train.batch_size=16", "train.accumulation_steps=4"}, NumbersEffect::same_rounding},
                     {7, 6 << 20, {}, NumbersEffect::same_bits}};
  end.num_warnings = 2;
  const std::string text = run_summary(end, Metric::loss, "", {});
  CHECK_THAT(text, Catch::Contains("  adapted     at step 3 to train.batch_size=16 train.accumulation_steps=4 for 8.00 "
                                   "MiB: same result\n              but for rounding\n"));
  CHECK_THAT(text, Catch::Contains("  adapted     at step 7 to the smaller capacity for 6.00 MiB: same result\n"));
  CHECK_THAT(text, Catch::Contains("  warnings    2, told above\n"));
}

TEST_CASE("an adaptation is told with what failed, what there is, and what the run goes on with") {
  AdaptEvent event;
  event.step = 3;
  event.context = sample_context();
  event.capacity = 8 << 20;
  event.change = sample_fixes().front();
  event.change.capacity = 6 << 20;
  CHECK(adaptation_report(event, {}) ==
        "Adapted: memory ran out in step 3 (backward of 2 (conv2d)); 6.00 MiB are there instead of 8.00 MiB.\n"
        "The run goes on from step 3 with\n"
        "  train.batch_size=16 train.accumulation_steps=4\n"
        "  64 samples an update, 16 at a time\n"
        "  peak 4.00 MiB reserved of 6.00 MiB; same result but for rounding; 1.2 times the time a step\n");
  CHECK(adaptation_message(event) ==
        "out of memory in step 3 (backward of 2 (conv2d)): 6.00 MiB are there instead of 8.00 MiB; goes on with "
        "train.batch_size=16 train.accumulation_steps=4");
  event.context.planned = true;
  event.change.capacity = event.capacity;
  event.change.set.clear();
  CHECK(adaptation_message(event) ==
        "out of memory by the plan, before the first step: 8.00 MiB are not enough; goes on with the same settings");
}

TEST_CASE("the table of layers says whose parameters a layer uses, and counts them once") {
  Program program;
  program.layers.resize(2);
  program.layers[0] = {"a", "linear", {}, {}, {DType::f32, Shape{8, 4}}, 20, 256};
  program.layers[1] = {"b", "linear", {}, {}, {DType::f32, Shape{8, 4}}, 0, 256, false, "a"};
  program.parameters.resize(1);
  program.parameters[0].type = {DType::f32, Shape{5, 4}};
  program.parameters[0].layer = 0;
  CHECK(summary_table(program, {}, {}) ==
        "layer  kind    output  parameters  their bytes  FLOPs  activations\n"
        "a      linear  8×4             20         80 B    256          0 B\n"
        "b      linear  8×4           of a          0 B    256          0 B\n"
        "──────────────────────────────────────────────────────────────────\n"
        "total                          20         80 B    512          0 B\n");
  CHECK(summary_json(program, {}).find(R"({"layer":"b","kind":"linear","output":[8,4],"shares":"a","parameters":0)") !=
        std::string::npos);
}

TEST_CASE("the table of layers counts parameters and the activations that training allocates") {
  Program program;
  program.layers.resize(2);
  program.layers[0] = {"0", "linear", {}, {}, {DType::f32, Shape{8, 4}}, 20, 256};
  program.layers[1] = {"1", "relu", {}, {DType::f32, Shape{8, 4}}, {DType::f32, Shape{8, 4}}, 0, 32};
  program.parameters.resize(2);
  program.parameters[0].type = {DType::f32, Shape{4, 4}};
  program.parameters[0].layer = 0;
  program.parameters[1].type = {DType::f32, Shape{4}};
  program.parameters[1].layer = 0;
  program.buffers = {{"0.output", 0, Category::activation, {DType::f32, Shape{8, 4}}, 128},
                     {"0.weight.grad", 0, Category::gradient, {DType::f32, Shape{4, 4}}, 64}};
  program.micro_batches.resize(1);
  program.micro_batches[0].batch_size = 8;
  program.micro_batches[0].first.instructions = {{Instruction::Kind::allocate, 0, 0, Phase::forward},
                                                 {Instruction::Kind::allocate, 1, 0, Phase::backward},
                                                 {Instruction::Kind::release, 0, 0, Phase::backward}};
  CHECK(summary_table(program, {}, {}) ==
        "layer  kind    output  parameters  their bytes  FLOPs  activations\n"
        "0      linear  8×4             20         80 B    256        128 B\n"
        "1      relu    8×4              0          0 B     32          0 B\n"
        "──────────────────────────────────────────────────────────────────\n"
        "total                          20         80 B    288        128 B\n");
  CHECK(summary_json(program, {})
            .find(R"({"layer":"0","kind":"linear","output":[8,4],"parameters":20,"flops":256,)"
                  R"("parameter_bytes":80,"activation_bytes":128,"trained":true})") != std::string::npos);
}

TEST_CASE("the table of layers says what is trained where something is frozen, and what layer groups are trained by") {
  Program program;
  program.layers.resize(4);
  program.layers[0] = {"stem", "conv2d", {}, {}, {DType::f32, Shape{8, 4}}, 20, 256};
  program.layers[1] = {"norm", "batchnorm2d", {}, {}, {DType::f32, Shape{8, 4}}, 8, 256};
  program.layers[2] = {"2", "relu", {}, {}, {DType::f32, Shape{8, 4}}, 0, 32};
  program.layers[3] = {"head", "linear", {}, {}, {DType::f32, Shape{8, 3}}, 12, 96};
  program.parameters.resize(5);
  const auto set = [&](std::size_t index, LayerId layer, std::int64_t size, bool trainable, std::int32_t group) {
    Parameter& parameter = program.parameters[index];
    parameter.type = {DType::f32, Shape{size}};
    parameter.layer = layer;
    parameter.trainable = trainable;
    parameter.group = group;
  };
  set(0, 0, 20, false, 0);
  set(1, 1, 4, true, 1);
  set(2, 1, 4, true, 1);
  set(3, 1, 4, false, 1);
  program.parameters[3].is_weight = false;  // a running statistic
  set(4, 3, 12, true, 2);
  Experiment experiment;
  experiment.stage = "tuned";
  experiment.groups = {{"stem", {"stem"}}, {"norms", {"norm"}}, {"head", {}}};
  experiment.optimizer.lr.slice = {1e-5, 1e-3};
  experiment.optimizer.weight_decay.number = 0.05;
  CHECK(summary_table(program, experiment, {}) ==
        "layer  kind         output  parameters  weights  their bytes  FLOPs  activations\n"
        "stem   conv2d       8×4             20  frozen          80 B    256          0 B\n"
        "norm   batchnorm2d  8×4              8  trained         48 B    256          0 B\n"
        "2      relu         8×4              0                   0 B     32          0 B\n"
        "head   linear       8×3             12  trained         48 B     96          0 B\n"
        "────────────────────────────────────────────────────────────────────────────────\n"
        "total                               40                 176 B    640          0 B\n"
        "\n"
        "20 of 40 parameters are trained.\n"
        "\n"
        "layer group  layers with parameters  parameters  trained  learning rate  weight decay\n"
        "stem                              1          20        0\n"
        "norms                             1           8        8         0.0001          0.05\n"
        "head                              1          12       12          0.001          0.05\n");
  const nlohmann::json summary = nlohmann::json::parse(summary_json(program, experiment));
  CHECK(summary["stage"] == "tuned");
  CHECK(summary["trained_parameters"] == 20);
  CHECK((summary["layers"][0]["trained"] == false && summary["layers"][1]["trained"] == true));
  CHECK_FALSE(summary["layers"][2].contains("trained"));
  CHECK(summary["groups"][0] ==
        nlohmann::json({{"group", "stem"}, {"layers", 1}, {"parameters", 20}, {"trained_parameters", 0}}));
  CHECK(summary["groups"][1]["learning_rate"].get<double>() == Approx(1e-4));
  CHECK(summary["groups"][2]["weight_decay"] == 0.05);
}
