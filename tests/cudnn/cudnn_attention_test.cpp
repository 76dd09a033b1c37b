#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/library/cudnn_attention.h"
#include "cuda/library/cudnn_convolution.h"
#include "cuda/library/known_scratch.h"
#include "cuda/model/described_device.h"
#include "datasets/dataset.h"
#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "tests/cudnn/cache_home.h"

// What cuDNN plans of attention for GPUs that are only described: nothing here needs one.
namespace trainer::cuda {

namespace {

constexpr std::int64_t no_limit = std::int64_t{1} << 40;

std::string properties_of_gpu(const std::string& gpu) {
  std::ifstream file(TRAINER_SOURCE_DIR "/configs/gpus/" + gpu + ".cudnn.json");
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

AttentionCall attention_of(AttentionDirection direction, std::int64_t samples, std::int64_t positions,
                           std::int64_t heads, std::int64_t kv_heads, std::int64_t width) {
  const std::int64_t features = (heads + 2 * kv_heads) * width;
  return {.direction = direction,
          .samples = samples,
          .queries = positions,
          .keys = positions,
          .heads = heads,
          .kv_heads = kv_heads,
          .width = width,
          .query_features = features,
          .key_features = features,
          .causal = true,
          .workspace_limit = no_limit};
}

AttentionCall with_attention_limit(AttentionCall call, std::int64_t limit) {
  call.workspace_limit = limit;
  return call;
}

}  // namespace

TEST_CASE("cuDNN plans attention forward in 256 bytes or none on every GPU from compute capability 8.0 on") {
  for (const std::string gpu : {"h100", "h200", "a100-40gb", "a10", "l4", "rtx3060-12gb", "rtx4090", "b200"}) {
    INFO(gpu);
    const CudnnAttentionPlans plans(properties_of_gpu(gpu));
    CHECK(plans.why_none().empty());
    for (const DType type : {DType::f16, DType::bf16})
      for (const std::int64_t width : {8, 64, 72, 128})
        for (const std::int64_t kv_heads : {12, 4, 1})
          for (const bool causal : {true, false}) {
            AttentionCall call = attention_of(AttentionDirection::forward, 2, 1000, 12, kv_heads, width);
            call.type = type;
            call.causal = causal;
            const auto engine = plans.find(call);
            INFO(text_key(call));
            REQUIRE(engine);
            CHECK(engine->workspace_bytes <= 256);
            CHECK(engine == plans.find(call));
          }
  }
  CHECK_FALSE(CudnnAttentionPlans(properties_of_gpu("t4")).may_serve());
}

TEST_CASE("cuDNN's backward attention needs f32 sums of dq, and of dk and dv where heads share them") {
  const CudnnAttentionPlans h200(properties_of_gpu("h200")), a100(properties_of_gpu("a100-80gb"));
  struct Sizes {
    std::int64_t samples, positions, heads, width;
  };
  for (const Sizes& s : {Sizes{64, 1024, 12, 64}, Sizes{4, 2048, 25, 64}, Sizes{1, 8192, 32, 128}}) {
    const AttentionCall call =
        attention_of(AttentionDirection::backward, s.samples, s.positions, s.heads, s.heads, s.width);
    const std::int64_t of_queries = 4 * s.samples * s.heads * s.positions, of_dq = of_queries * s.width;
    // Σ dy · y, and what the engine takes for itself; Ampere's keeps dq twice.
    CHECK(h200.find(call)->workspace_bytes == of_dq + of_queries + 256);
    CHECK(a100.find(call)->workspace_bytes == 2 * of_dq + of_queries + 128);
    // dk and dv of all query heads, in 16 bits, before those that share a key head are added up.
    AttentionCall grouped = attention_of(AttentionDirection::backward, s.samples, s.positions, s.heads, 1, s.width);
    CHECK(h200.find(grouped)->workspace_bytes > h200.find(call)->workspace_bytes);
  }
}

TEST_CASE("attention that needs more scratch than its limit is not cuDNN's") {
  const CudnnAttentionPlans plans(properties_of_gpu("h200"));
  const AttentionCall forward = attention_of(AttentionDirection::forward, 8, 512, 12, 12, 64);
  CHECK(plans.find(with_attention_limit(forward, 256))->workspace_bytes == 256);
  CHECK(plans.find(with_attention_limit(forward, 255))->workspace_bytes == 0);
  const AttentionCall backward = attention_of(AttentionDirection::backward, 8, 512, 12, 12, 64);
  const std::int64_t least = plans.find(backward)->workspace_bytes;
  CHECK(plans.find(with_attention_limit(backward, least)));
  CHECK_FALSE(plans.find(with_attention_limit(backward, least - 1)));
  CudnnAttentionPlanner planner{CudnnAttentionPlans(properties_of_gpu("h200"))};
  CHECK(planner.workspace_bytes(backward) == least);
  CHECK(planner.workspace_bytes(with_attention_limit(backward, least - 1)) == std::nullopt);
}

TEST_CASE("answers about attention are kept for the next process, refusals too") {
  const CacheHome home;
  const AttentionCall served = attention_of(AttentionDirection::forward, 8, 512, 12, 12, 64);
  const AttentionCall refused = with_attention_limit(attention_of(AttentionDirection::backward, 8, 512, 12, 12, 64), 5);
  for (int process = 0; process < 2; ++process) {
    const auto planner = make_cudnn_attention_planner(properties_of_gpu("h200"));
    CHECK(planner->workspace_bytes(served) == 256);
    CHECK(planner->workspace_bytes(refused) == std::nullopt);
    CHECK(planner->bound_reason().empty());
  }
  REQUIRE(home.files().size() == 1);
  std::ifstream file(home.files()[0]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK_THAT(text, Catch::Contains("256 " + text_key(served)) && Catch::Contains("-1 " + text_key(refused)));
}

TEST_CASE("what is kept about attention is not asked again") {
  const CacheHome home;
  const std::string properties = properties_of_gpu("h200");
  const AttentionCall call = attention_of(AttentionDirection::forward, 8, 512, 12, 12, 64);
  make_cudnn_attention_planner(properties)->workspace_bytes(call);
  REQUIRE(home.files().size() == 1);
  KnownScratch known(home.files()[0].string(), CudnnAttentionPlans::identity(properties));
  known.add(text_key(call), 12345);
  known.save();
  CHECK(make_cudnn_attention_planner(properties)->workspace_bytes(call) == 12345);
}

TEST_CASE("a GPT in 16 bits is planned with cuDNN's attention, backward where device.deterministic is false") {
  const auto scratch_of = [](const std::string& gpu, std::vector<std::string> set) {
    set.insert(set.end(), {"device.type=cuda", "train.batch_size=8", "memory.workspace_limit=1GiB"});
    const Experiment experiment = load_experiment(TRAINER_SOURCE_DIR "/configs/memory/gpt2.yaml", set);
    const DescribedDevice device(load_gpu_profile(TRAINER_SOURCE_DIR "/configs/gpus/" + gpu + ".yaml"),
                                 {.deterministic = experiment.device.deterministic},
                                 {.convolutions = make_cudnn_planner(properties_of_gpu(gpu), {}),
                                  .attentions = make_cudnn_attention_planner(properties_of_gpu(gpu))},
                                 {});
    const Program program = compile(experiment, describe_data(experiment.data, experiment.seed), device);
    CHECK(device.workspace_bound().empty());
    std::array<std::int64_t, 2> scratch = {-1, -1};
    for (const OpCall& call : program.calls) {
      if (call.op.kind == OpKind::attention) scratch[0] = device.workspace_bytes(call.op);
      if (call.op.kind == OpKind::attention_backward) scratch[1] = device.workspace_bytes(call.op);
    }
    return scratch;
  };
  // GPT-2: 12 heads of 64, 1,024 tokens.
  const std::int64_t of_queries = 4 * 8 * 12 * 1024;
  using Scratch = std::array<std::int64_t, 2>;
  CHECK(scratch_of("h200", {"train.amp=bf16"}) == Scratch{256, of_queries});
  CHECK(scratch_of("h200", {"train.amp=bf16", "device.deterministic=false"}) == Scratch{256, of_queries * 65 + 256});
  CHECK(scratch_of("h200", {"device.deterministic=false"}) == Scratch{0, of_queries});
  CHECK(scratch_of("t4", {"train.amp=fp16", "device.deterministic=false"}) == Scratch{0, of_queries});
}

}  // namespace trainer::cuda
