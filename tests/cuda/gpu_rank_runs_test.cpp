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

TEST_CASE("several ranks of GPUs train as one process does, to rounding, and each holds what its plan says") {
  RankRunOptions on_gpus;
  on_gpus.make_device = [] { return cuda::make_emulated_device(); };
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
  on_gpus.make_device = [] { return cuda::make_emulated_device(); };
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
  on_gpus.make_device = [] { return cuda::make_emulated_device(); };
  on_gpus.num_tensor = 2;
  for (const RankCase& each : tensor_cases()) {
    const OutputFolder folder;
    INFO(each.name);
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), each.overrides).front();
    REQUIRE(one.status == RunStatus::done);
    check_against_one(run_ranks(2, each.yaml, folder.path("two"), each.overrides, on_gpus), one, each.tolerance);
  }
}

TEST_CASE("stages of a pipeline on GPUs train as one of them that takes the same micro-batches, in their plans") {
  RankRunOptions on_gpus;
  on_gpus.make_device = [] { return cuda::make_emulated_device(); };
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
  on_gpus.make_device = [] { return cuda::make_emulated_device(cuda::SumsOverRanks::in_one_order); };
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
  on_gpus.make_device = [] { return cuda::make_emulated_device(); };
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
      on_gpus.make_device = [&] { return cuda::make_emulated_device(false, timing); };
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
  on_gpus.make_device = [] { return cuda::make_emulated_device(); };
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
  on_gpus.make_device = [] { return cuda::make_emulated_device(); };
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
  for (RankRunOptions* options : {&on_gpus, &stopped, &resumed})
    options->make_device = [] { return cuda::make_emulated_device(); };
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
