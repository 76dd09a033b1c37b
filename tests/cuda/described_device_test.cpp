#include "cuda/model/described_device.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "cuda/model/bounded_planner.h"
#include "engine/config/load_experiment.h"
#include "engine/ops/attention.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

namespace trainer::cuda {
namespace {

GpuProfile small_gpu() {
  GpuProfile profile;
  profile.path = "configs/gpus/small.yaml";
  profile.name = "NVIDIA Small";
  profile.compute_capability = 90;
  profile.usable_bytes = 1000 << 20;
  profile.context_bytes = 60 << 20;
  profile.library_bytes = 40 << 20;
  return profile;
}

Experiment convolution_network(const std::string& rest = "") {
  return parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 4], classes: 10, samples: 64}\n"
      "model: {layers: [{conv2d: {out: 6, kernel: 3, padding: 1}}, flatten, linear: {out: 10}]}\n"
      "train: {batch_size: 16}\n" +
          rest,
      "test.yaml");
}

/// Answers with a fixed number of bytes and counts what it is asked.
class CountingPlanner final : public ConvolutionPlanner {
 public:
  CountingPlanner(std::int64_t num_bytes, std::vector<ConvolutionCall>& calls) : num_bytes_(num_bytes), calls_(calls) {}
  std::int64_t workspace_bytes(const ConvolutionCall& call) override {
    calls_.push_back(call);
    return num_bytes_;
  }

 private:
  std::int64_t num_bytes_;
  std::vector<ConvolutionCall>& calls_;
};

std::int64_t largest_workspace(const Program& program) {
  std::int64_t largest = 0;
  for (const OpCall& call : program.calls) {
    if (call.workspace >= 0 && std::holds_alternative<Conv2dAttributes>(call.op.attributes))
      largest = std::max(largest, program.buffers[static_cast<std::size_t>(call.workspace)].num_bytes);
  }
  return largest;
}

}  // namespace

TEST_CASE("a described device has statistics of f16 convolutions where they are planned and a batch norm gains") {
  std::vector<ConvolutionCall> calls;
  const DescribedDevice device(small_gpu(), {}, {.convolutions = std::make_unique<CountingPlanner>(100, calls)}, {});
  const auto has_statistics = [&](DType type, std::int64_t images, std::int64_t limit, std::int64_t channels = 8) {
    const Op op = conv2d_op({type, {images, 16, 16, channels}},
                            {.out = 8, .bias = false, .statistics = true, .workspace_limit = limit});
    return device.convolution_statistics(op);
  };
  CHECK(has_statistics(DType::f16, 8, 100));
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].statistics);
  CHECK(calls[0].direction == ConvolutionDirection::forward);
  CHECK_FALSE(has_statistics(DType::f16, 8, 99));
  CHECK(calls.size() == 2);
  // Nobody is asked about what is known.
  CHECK_FALSE(has_statistics(DType::bf16, 8, 100));
  CHECK_FALSE(has_statistics(DType::f32, 8, 100));
  CHECK_FALSE(has_statistics(DType::f16, 4, 100));  // 1024 rows are one launch
  CHECK_FALSE(has_statistics(DType::f16, 8, 100, 3));
  CHECK_FALSE(has_statistics(DType::f16, 8, 100, 12));
  CHECK(calls.size() == 2);
}

TEST_CASE("a described device is a CUDA device that names what it will hold outside the allocator") {
  const auto device = make_described_device(small_gpu(), {}, 96 << 20);
  CHECK(device->kind() == "cuda");
  CHECK(device->name() == "NVIDIA Small");
  CHECK(device->copies_ahead());
  CHECK(device->outside_allocator() == std::vector<NamedBytes>{{"estimated CUDA context", 60 << 20},
                                                               {"estimated library handles and kernels", 40 << 20}});
}

TEST_CASE("the scratch that the planner tells is what a described device's program holds") {
  const Experiment experiment = convolution_network("device: {type: cpu, tf32: true}\n");
  const DataDescription data = described_data(Shape{8, 8, 4}, 10, 64);
  std::vector<ConvolutionCall> calls;
  constexpr std::int64_t num_bytes = 3'000'000;
  const DescribedDevice exact(small_gpu(), {.tf32 = true},
                              {.convolutions = std::make_unique<CountingPlanner>(num_bytes, calls)}, {});
  CHECK(exact.workspace_bound().empty());
  const Program program = compile(experiment, data, exact);
  const std::int64_t held = largest_workspace(program);
  CHECK(held >= num_bytes);
  CHECK(held < num_bytes + 100'000);  // sums of the bias's gradient
  REQUIRE_FALSE(calls.empty());
  for (const ConvolutionCall& call : calls) {
    CHECK(call.tf32);
    CHECK(call.workspace_limit == experiment.memory.workspace_limit);
  }
}

TEST_CASE("where cuDNN cannot be asked, the limit bounds the scratch, and the device says why") {
  const Experiment experiment = convolution_network("memory: {workspace_limit: 5MiB}\n");
  const DataDescription data = described_data(Shape{8, 8, 4}, 10, 64);
  const auto device = make_described_device(small_gpu(), {}, experiment.memory.workspace_limit);
  CHECK(largest_workspace(compile(experiment, data, *device)) >= 5 << 20);
  CHECK_THAT(device->workspace_bound(), Catch::Contains("memory.workspace_limit, 5.00 MiB a call"));
  CHECK_THAT(device->workspace_bound(), Catch::Contains("the profile names no file with properties for cuDNN"));
  CHECK_THAT(device->workspace_bound(), !Catch::Contains("products"));
}

TEST_CASE("where stored choices of products cannot be looked up, a device that was asked about products says so") {
  const Op product = linear_op({DType::f32, {8, 16}}, {.out = 64});
  const auto device = make_described_device(small_gpu(), {.autotune = true}, 5 << 20);
  CHECK(device->workspace_bound().empty());
  device->workspace_bytes(product);
  CHECK_THAT(device->workspace_bound(), Catch::Contains("scratch of products") && Catch::Contains("up to 32 MiB") &&
                                            Catch::Contains("no file with properties for cuDNN") &&
                                            !Catch::Contains("scratch of convolutions"));
  const auto untimed = make_described_device(small_gpu(), {}, 5 << 20);
  untimed->workspace_bytes(product);
  CHECK(untimed->workspace_bound().empty());
}

TEST_CASE("a profile's file for cuDNN that is not there is a mistake of the profile") {
  GpuProfile profile = small_gpu();
  profile.cudnn = "lost.cudnn.json";
  CHECK_THROWS_AS(make_described_device(profile, {}, 96 << 20), ConfigError);
}

TEST_CASE("products are planned with the scratch that their choices need, and those without one are told") {
  class ChosenMatmuls final : public MatmulPlanner {
   public:
    std::int64_t workspace_bytes(const MatmulCall& call) override {
      if (call.n == 64) return std::int64_t{32} << 20;
      ++num_untuned_;
      return 512;
    }
    std::int64_t num_untuned() const override { return num_untuned_; }

   private:
    std::int64_t num_untuned_ = 0;
  };
  const DescribedDevice device(
      small_gpu(), {},
      {.convolutions = std::make_unique<BoundedConvolutionPlanner>(), .matmuls = std::make_unique<ChosenMatmuls>()},
      {});
  const TensorType features{DType::f32, {8, 16}};
  CHECK(device.workspace_bytes(linear_op(features, {.out = 64})) == std::int64_t{32} << 20);
  CHECK(device.workspace_bound().empty());
  CHECK(device.workspace_bytes(linear_op(features, {.out = 32})) == 512);
  CHECK_THAT(device.workspace_bound(),
             Catch::Contains("1 product has not been timed on this GPU") && Catch::Contains("32 MiB"));
}

TEST_CASE("products that read chunks of a tensor are planned as aligned as the chunks are") {
  class AlignedMatmuls final : public MatmulPlanner {
   public:
    explicit AlignedMatmuls(std::int64_t& least) : least_(least) {}
    std::int64_t workspace_bytes(const MatmulCall& call) override {
      least_ = std::min(least_, call.alignment);
      return 0;
    }
    std::int64_t num_untuned() const override { return 0; }

   private:
    std::int64_t& least_;
  };
  for (const std::int64_t features : {3, 8}) {
    const TensorType x{DType::f32, {8, features}}, weight{DType::f32, {10, features}}, targets{DType::i32, {8}};
    std::int64_t least = 16;
    const DescribedDevice device(small_gpu(), {},
                                 {.convolutions = std::make_unique<BoundedConvolutionPlanner>(),
                                  .matmuls = std::make_unique<AlignedMatmuls>(least)},
                                 {});
    device.workspace_bytes(linear_cross_entropy_op(x, weight, targets, {.loss = {}, .bias = false, .chunk_rows = 1}));
    CHECK(least == (features == 3 ? 4 : 16));
  }
}

TEST_CASE("convolutions that have not been timed yet are told once the device was asked about them") {
  /// Has timed no convolution.
  class UntunedPlanner final : public ConvolutionPlanner {
   public:
    std::int64_t workspace_bytes(const ConvolutionCall&) override { return 100 * ++num_asked_; }
    std::int64_t num_untuned() const override { return num_asked_; }

   private:
    std::int64_t num_asked_ = 0;
  };
  const Experiment experiment = convolution_network();
  const DataDescription data = described_data(Shape{8, 8, 4}, 10, 64);
  const DescribedDevice device(small_gpu(), {}, {.convolutions = std::make_unique<UntunedPlanner>()}, {});
  CHECK(device.workspace_bound().empty());
  const Program program = compile(experiment, data, device);
  const auto is_convolution = [](const OpCall& call) {
    return std::holds_alternative<Conv2dAttributes>(call.op.attributes);
  };
  REQUIRE(std::any_of(program.calls.begin(), program.calls.end(), is_convolution));
  CHECK_THAT(device.workspace_bound(), Catch::Contains("not been timed on this GPU"));
  CHECK_THAT(device.workspace_bound(), Catch::Contains("cuDNN's first choice"));

  const DescribedDevice bounded(small_gpu(), {}, {.convolutions = std::make_unique<UntunedPlanner>()},
                                {.convolutions = "A bound.", .products = ""});
  compile(experiment, data, bounded);
  CHECK(bounded.workspace_bound() == "A bound.");
}

TEST_CASE("where cuDNN cannot be asked the scratch of its attention is a bound, and said to be one") {
  const auto scratch_and_bound = [](int compute_capability, bool deterministic, DType type, bool backward) {
    GpuProfile profile = small_gpu();
    profile.compute_capability = compute_capability;
    const auto device = make_described_device(profile, {.deterministic = deterministic}, std::int64_t{5} << 20);
    const Op forward =
        attention_op(TensorType{type, {2, 32, 96}},
                     {.heads = 4, .kv_heads = 4, .causal = true, .workspace_limit = std::int64_t{5} << 20});
    const std::int64_t scratch = device->workspace_bytes(backward ? attention_backward_op(forward) : forward);
    return std::pair(scratch, device->workspace_bound());
  };
  using Known = std::pair<std::int64_t, std::string>;
  const std::int64_t own_backward = 4 * 2 * 4 * 32;
  CHECK(scratch_and_bound(80, true, DType::f32, false) == Known{0, ""});
  CHECK(scratch_and_bound(75, false, DType::f16, false) == Known{0, ""});
  CHECK(scratch_and_bound(75, false, DType::f16, true) == Known{own_backward, ""});
  CHECK(scratch_and_bound(80, true, DType::f16, true) == Known{own_backward, ""});
  const auto [forward, bound] = scratch_and_bound(80, true, DType::f16, false);
  CHECK(forward == 1024);
  CHECK_THAT(bound, Catch::Contains("The scratch of attention is counted with its bound, 1.00 KiB a call at most"));
  const auto [backward, larger_bound] = scratch_and_bound(80, false, DType::f16, true);
  CHECK(backward == std::int64_t{5} << 20);
  CHECK_THAT(larger_bound, Catch::Contains("5.00 MiB a call at most") && Catch::Contains("names no file"));
}

TEST_CASE("a described device plans staging for the next batch beside the step") {
  const Experiment experiment = convolution_network();
  const DataDescription data = described_data(Shape{8, 8, 4}, 10, 64);
  const auto device = make_described_device(small_gpu(), {}, experiment.memory.workspace_limit);
  const Program program = compile(experiment, data, *device);
  REQUIRE(program.staged_fields.size() == 2);
  CHECK(program.buffers[static_cast<std::size_t>(program.staged_fields[0])].num_bytes == 16 * 8 * 8 * 4);
  const MemoryPlan plan = make_memory_plan(program, RunSchedule(experiment, data), small_gpu().free_bytes());
  CHECK(plan.fits);
  CHECK(plan.peak_requested > 96 << 20);
}

}  // namespace trainer::cuda
