#include <array>
#include <catch2/catch.hpp>
#include <string_view>

#include "tests/cuda/emulated_device.h"
#include "tests/ranks/deterministic_cases.h"
#include "tests/ranks/pipeline_cases.h"
#include "tests/ranks/rank_runs.h"
#include "tests/ranks/saved_checkpoints.h"
#include "tests/ranks/tensor_cases.h"

// Whole runs of ranks whose devices are emulated GPUs, by NCCL's calls, beside one of one CPU and beside their plans.

using namespace trainer;

namespace {

std::unique_ptr<Device> emulated_gpu(const RankLayout& ranks) { return cuda::make_emulated_device({.layout = ranks}); }

}  // namespace

TEST_CASE("several ranks of GPUs train as one process does, to rounding, and each holds what its plan says") {
  RankRunOptions on_gpus;
  on_gpus.make_device = emulated_gpu;
  for (const RankCase& each : rank_cases()) {
    const OutputFolder folder;
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), each.overrides).front();
    REQUIRE(one.status == RunStatus::done);
    for (const int num_ranks : {2, 4}) {
      INFO(each.name << ", " << num_ranks << " ranks");
      const std::vector<RankRun> ranks =
          run_ranks(num_ranks, each.yaml, folder.path(std::to_string(num_ranks)), each.overrides, on_gpus);
      check_against_one(ranks, one, each.tolerance);
    }
  }
}

TEST_CASE("ranks of GPUs that share a model train as ranks that each hold it, and each holds what its plan says") {
  RankRunOptions on_gpus;
  on_gpus.make_device = emulated_gpu;
  std::size_t turn = 0;
  for (const RankCase& each : rank_cases()) {
    const OutputFolder folder;
    ++turn;
    for (const int num_ranks : {2, 3}) {
      const std::string n = std::to_string(num_ranks);
      const RankRun whole = run_ranks(num_ranks, each.yaml, folder.path("none" + n), each.overrides, on_gpus).front();
      for (const char* shard : {"optimizer", "gradients", "parameters"}) {
        // Three ranks in turn: all of both would take minutes.
        if (num_ranks == 3 && std::string_view(shard) != all_shards[1 + turn % 3]) continue;
        INFO(each.name << ", " << num_ranks << " ranks, " << shard);
        std::vector<std::string> overrides = each.overrides;
        overrides.push_back(std::string("parallel.shard=") + shard);
        check_against_one(run_ranks(num_ranks, each.yaml, folder.path(shard + n), overrides, on_gpus), whole,
                          each.tolerance);
      }
    }
  }
}

TEST_CASE("ranks of GPUs that share layers train as one process does, to rounding, in their plans") {
  RankRunOptions on_gpus;
  on_gpus.make_device = emulated_gpu;
  on_gpus.num_tensor = 2;
  for (const RankCase& each : tensor_cases()) {
    const OutputFolder folder;
    INFO(each.name);
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), each.overrides).front();
    REQUIRE(one.status == RunStatus::done);
    check_against_one(run_ranks(2, each.yaml, folder.path("two"), each.overrides, on_gpus), one, each.tolerance);
  }
}

TEST_CASE("ranks of GPUs that share batches, layers and stages at once train as one process does, in their plans") {
  std::size_t turn = 0;
  for (const RankCase& each : tensor_cases()) {
    const OutputFolder folder;
    struct Layout {
      int num_ranks, num_tensor, num_stages;
      const char* micro_batches;  // as one process takes them, where parts of a batch have as many between them
    };
    const bool has_stages = each.yaml != text_model;
    // In turn: all of all would take minutes.
    const Layout layout = std::array{Layout{4, 2, 1, "0"}, Layout{4, 1, 2, "2"}, Layout{4, 2, 2, "4"},
                                     Layout{8, 2, 2, "2"}}[has_stages ? turn % 4 : 0];
    const cuda::CopyTiming timing = turn % 3 == 1 ? cuda::CopyTiming::early : cuda::CopyTiming::late;
    const char* const shard = all_shards[turn / 2 % (layout.num_stages > 1 ? 2 : 4)];
    ++turn;
    INFO(each.name << ", " << layout.num_ranks << " ranks, " << layout.num_tensor << " share layers, "
                   << layout.num_stages << " stages, " << shard);
    std::vector<std::string> alone = each.overrides, overrides = each.overrides;
    if (layout.num_stages > 1) {
      alone.emplace_back("parallel.micro_batches=4");
      overrides.push_back(std::string("parallel.micro_batches=") + layout.micro_batches);
    }
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), alone).front();
    REQUIRE(one.status == RunStatus::done);
    overrides.push_back(std::string("parallel.shard=") + shard);
    overrides.emplace_back("parallel.bucket_size=1");
    const RankRunOptions on_gpus{
        .num_stages = layout.num_stages, .num_tensor = layout.num_tensor, .make_device = [&](const RankLayout& ranks) {
          return cuda::make_emulated_device({.layout = ranks}, timing);
        }};
    check_against_one(run_ranks(layout.num_ranks, each.yaml, folder.path("several"), overrides, on_gpus), one,
                      each.tolerance);
  }
}

TEST_CASE("the first and the last of three stages on GPUs add up the gradient of a weight that both use") {
  const RankRunOptions in_stages{.num_stages = 3, .make_device = emulated_gpu};
  for (const char* amp : {"off", "bf16"}) {
    INFO(amp);
    const OutputFolder folder;
    const bool is_exact = amp == std::string("off");
    const double tolerance = is_exact ? 2e-5 : 3e-2;
    const std::vector<std::string> overrides = {"parallel.micro_batches=4", std::string("train.amp=") + amp,
                                                std::string("optimizer.lr=") + (is_exact ? "0.01" : "0.001")};
    const RankRun one = run_ranks(1, tied_model, folder.path("one"), overrides).front();
    REQUIRE(one.status == RunStatus::done);
    check_against_one(run_ranks(3, tied_model, folder.path("three"), overrides, in_stages), one, tolerance);
    check_against_one(run_ranks(6, tied_model, folder.path("six"),
                                with_overrides(overrides, {"parallel.micro_batches=2"}), in_stages),
                      one, tolerance);
  }
}

TEST_CASE("stages of a pipeline on GPUs train as one of them that takes the same micro-batches, in their plans") {
  RankRunOptions on_gpus;
  on_gpus.make_device = emulated_gpu;
  RankRunOptions in_stages = on_gpus;
  in_stages.num_stages = 2;
  std::size_t turn = 0;
  for (const RankCase& each : pipeline_cases()) {
    const OutputFolder folder;
    const RankRun one =
        run_ranks(1, each.yaml, folder.path("one"), with_overrides(each.overrides, {"parallel.micro_batches=3"}))
            .front();
    REQUIRE(one.status == RunStatus::done);
    const char* const schedule = std::array{"1f1b", "zero_bubble", "gpipe"}[turn++ % 3];
    INFO(each.name << ", " << schedule);
    const std::vector<std::string> overrides =
        with_overrides(each.overrides, {"parallel.micro_batches=3", std::string("parallel.schedule=") + schedule});
    check_against_one(run_ranks(2, each.yaml, folder.path("two"), overrides, in_stages), one, each.tolerance);
  }
}

TEST_CASE("deterministic runs have the same bits on 1, 2, 4 and 8 GPUs, however they share the model") {
  std::size_t number = 0;
  RankRunOptions on_gpus;
  on_gpus.make_device = [](const RankLayout& ranks) {
    return cuda::make_emulated_device(cuda::RankSums{.layout = ranks, .in_order = true});
  };
  for (const RankCase& each : deterministic_cases()) {
    const OutputFolder folder;
    const std::vector<std::string> overrides = with_overrides(each.overrides, {"parallel.deterministic=true"});
    INFO(each.name);
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), overrides, on_gpus).front();
    CHECK(one.mistake == "");
    REQUIRE(one.status == RunStatus::done);
    // In turn: all of both would take minutes.
    const std::size_t turn = number++;
    const int num_ranks = std::array{4, 2, 8}[turn % 3];
    const char* const shard = all_shards[turn % std::size(all_shards)];
    INFO(num_ranks << " ranks, " << shard);
    check_same_bits(run_ranks(num_ranks, each.yaml, folder.path("several"),
                              with_overrides(overrides, {std::string("parallel.shard=") + shard}), on_gpus),
                    one);
    check_same_files(folder, "one", "several", one.steps.size());
  }
}

TEST_CASE("ranks of GPUs with batch norms over all of them train as one process does, whatever they share") {
  RankRunOptions on_gpus;
  on_gpus.make_device = emulated_gpu;
  for (const RankCase& each : norm_cases()) {
    const OutputFolder folder;
    std::vector<std::string> overrides = each.overrides;
    overrides.emplace_back("parallel.sync_batchnorm=true");
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), overrides).front();
    REQUIRE(one.status == RunStatus::done);
    for (const int num_ranks : {2, 3}) {
      for (const char* shard : {"none", "parameters"}) {
        INFO(each.name << ", " << num_ranks << " ranks, " << shard);
        std::vector<std::string> shared = overrides;
        shared.push_back(std::string("parallel.shard=") + shard);
        check_against_one(
            run_ranks(num_ranks, each.yaml, folder.path(shard + std::to_string(num_ranks)), shared, on_gpus), one,
            each.tolerance);
      }
    }
  }
}

TEST_CASE("ranks of GPUs whose sums overlap train alike, whenever what was started runs") {
  std::size_t number = 0;
  for (const RankCase& each : rank_cases()) {
    const OutputFolder folder;
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), each.overrides).front();
    // In turn: a case has two shards late, two early.
    const std::size_t turn = number++;
    for (const cuda::CopyTiming timing : {cuda::CopyTiming::late, cuda::CopyTiming::early}) {
      RankRunOptions on_gpus;
      on_gpus.make_device = [&](const RankLayout& ranks) {
        return cuda::make_emulated_device({.layout = ranks}, timing);
      };
      const bool is_late = timing == cuda::CopyTiming::late;
      for (const std::size_t at : {turn % 2, turn % 2 + 2}) {
        const char* const shard = all_shards[is_late ? at : 3 - at];
        INFO(each.name << ", " << shard << (is_late ? ", late" : ", early"));
        std::vector<std::string> overrides = each.overrides;
        overrides.push_back(std::string("parallel.shard=") + shard);
        overrides.emplace_back("parallel.bucket_size=1");
        check_against_one(
            run_ranks(2, each.yaml, folder.path(shard + std::to_string(int{is_late})), overrides, on_gpus), one,
            each.tolerance);
      }
    }
  }
}

TEST_CASE("what ranks of GPUs do between their sums is replayed, and their sums are not") {
  RankRunOptions on_gpus;
  on_gpus.make_device = emulated_gpu;
  const OutputFolder folder;
  // Batches of 9 samples are 5 and 4, the last of 38 samples 1 and 1: each rank records at other steps.
  const std::vector<std::string> overrides = {"data.samples=38", "train.steps=30", "memory.allocator=planned"};
  for (const RankRun& run : run_ranks(2, without_norms, folder.path("run"), overrides, on_gpus)) {
    CHECK(run.mistake == "");
    CHECK(run.end.passes.obstacle == "");
    CHECK(run.end.passes.replayed > run.end.passes.total / 2);
  }
}

TEST_CASE("runs of ranks of GPUs give the same bits again, and go on from a checkpoint") {
  RankRunOptions on_gpus;
  on_gpus.make_device = emulated_gpu;
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"train.steps=16", "checkpoint.every=6"};
  run_ranks(2, small_experiment, folder.path("a"), overrides, on_gpus);
  RankRunOptions stopped = on_gpus, resumed = on_gpus;
  stopped.interrupt_after = 7;
  resumed.resume = true;
  for (const RankRun& run : run_ranks(2, small_experiment, folder.path("b"), overrides, stopped))
    CHECK(run.status == RunStatus::interrupted);
  for (const RankRun& run : run_ranks(2, small_experiment, folder.path("b"), overrides, resumed))
    CHECK(run.status == RunStatus::done);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) CHECK(same_file(folder, "a", "b", 16, file));
}

TEST_CASE("ranks of GPUs write checkpoints together that hold what rank 0 would write, and go on from them") {
  RankRunOptions on_gpus, stopped, resumed;
  for (RankRunOptions* options : {&on_gpus, &stopped, &resumed}) options->make_device = emulated_gpu;
  stopped.interrupt_after = 7;
  resumed.resume = true;
  for (const char* shard : {"none", "parameters"}) {
    INFO(shard);
    const OutputFolder folder;
    const std::vector<std::string> overrides = {"memory.moments=8bit", std::string("parallel.shard=") + shard};
    std::vector<std::string> sharded = overrides;
    sharded.emplace_back("checkpoint.sharded=true");
    run_ranks(2, without_norms, folder.path("whole"), overrides, on_gpus);
    run_ranks(2, without_norms, folder.path("sharded"), sharded, stopped);
    for (const RankRun& run : run_ranks(2, without_norms, folder.path("sharded"), sharded, resumed))
      CHECK(run.status == RunStatus::done);
    const std::string last = "/checkpoints/step-00000012";
    CHECK(same_tensors(folder.path("whole") + last, folder.path("sharded") + last));
  }
}
