#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/library/cudnn_convolution.h"
#include "cuda/library/cudnn_plans.h"
#include "cuda/ops/conv2d_call.h"
#include "cuda/ops/kernels.h"
#include "datasets/dataset.h"
#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "engine/program/compile.h"

// What cuDNN plans for GPUs that are only described: nothing here needs one.
namespace trainer::cuda {

namespace {

namespace fs = std::filesystem;

const fs::path configs = fs::path(TRAINER_SOURCE_DIR) / "configs";

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string properties_of(const std::string& gpu) { return read_file(configs / "gpus" / (gpu + ".cudnn.json")); }

/// `op` on operands of `type`, as mixed precision makes it.
Op with_type(Op op, DType type) {
  for (auto* operands : {&op.inputs, &op.outputs})
    for (TensorType& operand : *operands) operand.dtype = type;
  return op;
}

/// What `compile` asks of a device, noting the convolutions, all of them on operands of `type`.
class ConvolutionRecorder final : public DeviceModel {
 public:
  ConvolutionRecorder(const std::string& gpu, DType type, bool tf32)
      : planner_(make_cudnn_planner(properties_of(gpu), {.tf32 = tf32})), type_(type), tf32_(tf32) {}

  std::string kind() const override { return "cuda"; }
  std::string name() const override { return "described"; }
  std::vector<NamedBytes> outside_allocator() const override { return {}; }
  bool copies_ahead() const override { return true; }
  std::int64_t workspace_bytes(const Op& f32_op) const override {
    if (f32_op.kind != OpKind::conv2d && f32_op.kind != OpKind::conv2d_backward_input &&
        f32_op.kind != OpKind::conv2d_backward_weight)
      return 0;
    ++num_convolutions_;
    const Op op = with_type(f32_op, type_);
    const ConvolutionCall call = convolution_call(op, tf32_);
    const std::int64_t planned = planner_->workspace_bytes(call);
    CHECK(planned >= 0);
    CHECK(planned <= call.workspace_limit);
    return compute_workspace_bytes(op, {.convolutions = planner_.get(), .tf32 = tf32_});
  }
  int num_convolutions() const { return num_convolutions_; }

 private:
  std::unique_ptr<ConvolutionPlanner> planner_;
  DType type_;
  bool tf32_;
  mutable int num_convolutions_ = 0;
};

/// Those that cuDNN can plan for.
std::vector<std::string> shipped_gpus() {
  constexpr std::string_view ending = ".cudnn.json";
  std::vector<std::string> gpus;
  for (const fs::directory_entry& entry : fs::directory_iterator(configs / "gpus"))
    if (const std::string name = entry.path().filename().string(); name.ends_with(ending))
      gpus.push_back(name.substr(0, name.size() - ending.size()));
  REQUIRE(gpus.size() >= 18);
  return gpus;
}

std::vector<fs::path> experiments() {
  std::vector<fs::path> files;
  for (const fs::path& folder : {configs, configs / "bench"})
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("cuDNN plans every convolution of every shipped experiment within memory.workspace_limit") {
  struct Arithmetic {
    DType type;
    bool tf32;
  };
  for (const std::string gpu : {"h200", "a100-80gb", "rtx3060-12gb"}) {
    for (const auto [type, tf32] : {Arithmetic{DType::f32, false}, Arithmetic{DType::f32, true},
                                    Arithmetic{DType::f16, false}, Arithmetic{DType::bf16, false}}) {
      int num_with_convolutions = 0;
      for (const fs::path& file : experiments()) {
        INFO(file << " on " << gpu << " in " << name_of(type) << (tf32 ? " with" : " without") << " TF32");
        const Experiment experiment = load_experiment(file.string());
        const ConvolutionRecorder device(gpu, type, tf32);
        compile(experiment, describe_data(experiment.data, experiment.seed), device);
        num_with_convolutions += device.num_convolutions() > 0 ? 1 : 0;
      }
      CHECK(num_with_convolutions >= 4);
    }
  }
}

/// Output and padding follow from the rest.
ConvolutionCall call_of(std::array<std::int64_t, 4> x, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                        std::int64_t dilation, std::int64_t groups) {
  ConvolutionCall call{.x = x, .y = {x[0], 0, 0, out}, .groups = groups, .workspace_limit = std::int64_t{96} << 20};
  call.kernel = {kernel, kernel};
  call.stride = {stride, stride};
  call.dilation = {dilation, dilation};
  call.padding = {dilation * (kernel / 2), dilation * (kernel / 2)};
  for (std::size_t axis = 1; axis < 3; ++axis)
    call.y[axis] = (x[axis] + 2 * call.padding[0] - dilation * (kernel - 1) - 1) / stride + 1;
  return call;
}

const std::vector<ConvolutionCall>& all_shapes() {
  static const std::vector<ConvolutionCall> shapes = {
      call_of({1, 1, 1, 1}, 1, 1, 1, 1, 1),       call_of({128, 28, 28, 1}, 32, 3, 1, 1, 1),
      call_of({64, 224, 224, 3}, 64, 7, 2, 1, 1), call_of({16, 17, 19, 33}, 35, 3, 1, 1, 1),
      call_of({64, 56, 56, 64}, 64, 3, 1, 1, 1),  call_of({64, 56, 56, 64}, 128, 3, 2, 1, 1),
      call_of({64, 56, 56, 64}, 256, 1, 1, 1, 1), call_of({64, 56, 56, 64}, 128, 1, 2, 1, 1),
      call_of({16, 28, 28, 64}, 64, 3, 1, 2, 1),  call_of({16, 28, 28, 64}, 64, 3, 1, 1, 4),
      call_of({16, 28, 28, 64}, 64, 3, 1, 1, 64), call_of({2, 5, 5, 7}, 7, 3, 1, 1, 7),
      call_of({64, 32, 32, 3}, 64, 3, 1, 1, 1),
  };
  return shapes;
}

/// Every direction, forward with bias and ReLU as well.
std::vector<ConvolutionCall> all_calls(bool tf32, DType type = DType::f32) {
  std::vector<ConvolutionCall> calls;
  for (ConvolutionCall call : all_shapes()) {
    call.type = type;
    call.tf32 = tf32;
    calls.push_back(call);
    for (const auto direction : {ConvolutionDirection::input_gradient, ConvolutionDirection::weight_gradient}) {
      call.direction = direction;
      calls.push_back(call);
    }
    call.direction = ConvolutionDirection::forward;
    call.bias = true;
    calls.push_back(call);
    call.relu = true;
    calls.push_back(call);
  }
  return calls;
}

TEST_CASE("cuDNN has plans for convolutions of all kinds on every shipped GPU") {
  for (const std::string& gpu : shipped_gpus()) {
    const CudnnPlans plans(properties_of(gpu));
    for (const bool tf32 : {false, true}) {
      for (const ConvolutionCall& call : all_calls(tf32)) {
        INFO(gpu << (tf32 ? " with" : " without") << " TF32, " << call.x[3] << " channels to " << call.y[3]
                 << ", kernel " << call.kernel[0] << ", direction " << static_cast<int>(call.direction));
        const std::vector<CudnnPlan> found = plans.find(call, 1);
        REQUIRE(found.size() == 1);
        CHECK(found[0].workspace_bytes <= call.workspace_limit);
        CHECK_FALSE(found[0].serialized.empty());
      }
    }
  }
}

TEST_CASE("cuDNN has plans for 16-bit convolutions of all kinds, of any number of channels, on every shipped GPU") {
  for (const std::string& gpu : shipped_gpus()) {
    const CudnnPlans plans(properties_of(gpu));
    for (const DType type : {DType::f16, DType::bf16}) {
      if (gpu == "t4" && type == DType::bf16) continue;  // Turing has no bf16
      for (const ConvolutionCall& call : all_calls(false, type)) {
        INFO(gpu << " in " << name_of(type) << ", " << call.x[3] << " channels to " << call.y[3] << ", kernel "
                 << call.kernel[0] << ", direction " << static_cast<int>(call.direction));
        const std::vector<CudnnPlan> found = plans.find(call, 1);
        REQUIRE(found.size() == 1);
        CHECK(found[0].workspace_bytes <= call.workspace_limit);
      }
    }
  }
}

TEST_CASE("a GPU that does not compute bf16 is told to take fp16") {
  const CudnnPlans plans(properties_of("t4"));
  for (const ConvolutionCall& call : all_calls(false, DType::bf16))
    CHECK_THROWS_WITH(plans.find(call, 1),
                      Catch::Contains("in bf16") && Catch::Contains("Tesla T4") && Catch::Contains("train.amp=fp16"));
}

TEST_CASE("the same description plans the same") {
  const CudnnPlans plans(properties_of("a100-80gb")), again(properties_of("a100-80gb"));
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const ConvolutionCall& call : all_calls(type == DType::f32, type)) {
      const CudnnPlan one = plans.find(call, 1)[0], two = again.find(call, 1)[0];
      CHECK(one.engine == two.engine);
      CHECK(one.workspace_bytes == two.workspace_bytes);
    }
  }
}

TEST_CASE("more plans of a convolution begin with the fewer, up to all that there are, on every shipped GPU") {
  std::vector<ConvolutionCall> calls;
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const ConvolutionCall& call : all_calls(type == DType::f32, type)) calls.push_back(call);
  const std::vector<std::string> gpus = shipped_gpus();
  std::size_t num_with_more = 0, num_next = 0;
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const CudnnPlans plans(properties_of(gpus[gpu]));
    // Each GPU takes its share of every second call.
    for (std::size_t index = gpu; index < calls.size(); index += 2 * gpus.size()) {
      ConvolutionCall call = calls[index];
      if (gpus[gpu] == "t4" && call.type == DType::bf16) continue;  // Turing has no bf16
      INFO(gpus[gpu] << ", call " << index);
      const auto all = plans.find(call, 1000);
      for (const std::size_t count : {1, 3}) {
        const auto few = plans.find(call, count);
        REQUIRE(few.size() == std::min(count, all.size()));
        for (std::size_t plan = 0; plan < few.size(); ++plan) {
          CHECK(few[plan].engine == all[plan].engine);
          CHECK(few[plan].serialized == all[plan].serialized);
        }
      }
      num_with_more += all.size() > 3 ? 1 : 0;
      // What the first one takes is shut out: the first of the others that takes less is next.
      const auto next = std::find_if(
          all.begin(), all.end(), [&](const CudnnPlan& plan) { return plan.workspace_bytes < all[0].workspace_bytes; });
      if (next == all.end()) continue;
      ++num_next;
      call.workspace_limit = all[0].workspace_bytes - 1;
      CHECK(plans.find(call, 1)[0].engine == next->engine);
    }
  }
  CHECK(num_with_more > calls.size() / 4);
  CHECK(num_next > calls.size() / 20);
}

TEST_CASE("TF32 opens engines that are closed without it") {
  const CudnnPlans plans(properties_of("h200"));
  ConvolutionCall call = all_shapes()[4];
  constexpr std::size_t all = 1000;
  const auto without = plans.find(call, all);
  call.tf32 = true;
  const auto with = plans.find(call, all);
  CHECK(with.size() > without.size());
}

TEST_CASE("where no engine keeps to the limit the one with the least scratch is planned") {
  const CudnnPlans plans(properties_of("h200"));
  for (const auto direction :
       {ConvolutionDirection::forward, ConvolutionDirection::input_gradient, ConvolutionDirection::weight_gradient}) {
    ConvolutionCall call = all_shapes()[4];
    call.direction = direction;
    call.workspace_limit = std::numeric_limits<std::int64_t>::max();
    const auto all = plans.find(call, 1000);
    const auto least = std::min_element(all.begin(), all.end(), [](const CudnnPlan& a, const CudnnPlan& b) {
      return a.workspace_bytes < b.workspace_bytes;
    });
    // Every shape that was tried has an engine without scratch, which no real limit shuts out.
    call.workspace_limit = -1;
    const auto found = plans.find(call, 8);
    REQUIRE(found.size() == 1);
    CHECK(found[0].engine == least->engine);
    CHECK(found[0].workspace_bytes == least->workspace_bytes);
  }
}

TEST_CASE("a smaller limit shuts out the engines above it") {
  const CudnnPlans plans(properties_of("h200"));
  ConvolutionCall call = all_shapes()[2];  // whose first choice with TF32 takes copies of both images
  call.tf32 = true;
  const std::int64_t unlimited = plans.find(call, 1)[0].workspace_bytes;
  REQUIRE(unlimited > 1000);
  call.workspace_limit = unlimited - 1;
  CHECK(plans.find(call, 1)[0].workspace_bytes < unlimited);
}

TEST_CASE("a convolution that no engine computes is an error that names it") {
  ConvolutionCall call = all_shapes()[4];
  call.relu = true;
  CHECK_THROWS_WITH(CudnnPlans(properties_of("h200")).find(call, 1),
                    Catch::Contains("no engine for a convolution of 64×56×56×64") && Catch::Contains("NVIDIA H200") &&
                        Catch::Contains("use a smaller batch"));
}

/// Convolutions in front of a batch norm: ResNet-18's on CIFAR at 256, and one of ImageNet's ResNet-50.
std::vector<ConvolutionCall> calls_with_statistics(DType type) {
  std::vector<ConvolutionCall> calls = {
      call_of({256, 32, 32, 64}, 64, 3, 1, 1, 1),   call_of({256, 32, 32, 64}, 128, 3, 2, 1, 1),
      call_of({256, 32, 32, 64}, 128, 1, 2, 1, 1),  call_of({256, 16, 16, 128}, 128, 3, 1, 1, 1),
      call_of({256, 16, 16, 128}, 256, 3, 2, 1, 1), call_of({256, 8, 8, 256}, 256, 3, 1, 1, 1),
      call_of({256, 8, 8, 256}, 512, 3, 2, 1, 1),   call_of({256, 4, 4, 512}, 512, 3, 1, 1, 1),
      call_of({256, 56, 56, 64}, 256, 1, 1, 1, 1),
  };
  for (ConvolutionCall& call : calls) {
    call.type = type;
    call.statistics = true;
  }
  return calls;
}

TEST_CASE("cuDNN plans the sums for a batch norm with f16 convolutions, in little scratch, on most GPUs") {
  for (const std::string gpu : {"rtx3060-12gb", "rtx4090", "a100-40gb", "a100-80gb", "h100", "h200"}) {
    const CudnnPlans plans(properties_of(gpu)), again(properties_of(gpu));
    for (const ConvolutionCall& call : calls_with_statistics(DType::f16)) {
      INFO(gpu << ", " << call.x[3] << " channels to " << call.y[3] << ", kernel " << call.kernel[0]);
      const std::vector<CudnnPlan> found = plans.find(call, 8);
      CHECK(found.size() > 1);
      CHECK(found[0].workspace_bytes <= std::int64_t{13} << 20);
      CHECK(found[0].engine == again.find(call, 1)[0].engine);
    }
  }
}

TEST_CASE(
    "cuDNN refuses the sums for a batch norm in other types, of other channels than multiples of 8, and on other "
    "GPUs") {
  const CudnnPlans plans(properties_of("h200"));
  for (const DType type : {DType::bf16, DType::f32})
    for (const ConvolutionCall& call : calls_with_statistics(type))
      CHECK_THROWS_WITH(plans.find(call, 1), Catch::Contains("no engine for a convolution with statistics"));
  for (const std::int64_t channels : {3, 12}) {
    ConvolutionCall call = call_of({256, 32, 32, channels}, 64, 3, 1, 1, 1);
    call.type = DType::f16;
    call.statistics = true;
    CHECK_THROWS_AS(plans.find(call, 1), DeviceError);
  }
  for (const std::string gpu : {"t4", "b200"})
    CHECK_THROWS_AS(CudnnPlans(properties_of(gpu)).find(calls_with_statistics(DType::f16)[0], 1), DeviceError);
}

/// A GPU that is known to cuDNN by its properties.
class PlannedDevice final : public DeviceModel {
 public:
  explicit PlannedDevice(const std::string& gpu) : planner_(make_cudnn_planner(properties_of(gpu), {})) {}
  std::string kind() const override { return "cuda"; }
  std::string name() const override { return "described"; }
  std::vector<NamedBytes> outside_allocator() const override { return {}; }
  std::int64_t workspace_bytes(const Op& op) const override {
    return compute_workspace_bytes(op, {.convolutions = planner_.get()});
  }
  bool convolution_statistics(const Op& conv2d) const override {
    return conv2d_statistics_pay(conv2d, {.convolutions = planner_.get()});
  }

 private:
  std::unique_ptr<ConvolutionPlanner> planner_;
};

struct StatisticsOfProgram {
  int num_convolutions = 0, num_with_statistics = 0, num_given = 0;
  std::int64_t largest_workspace = 0;
};

/// Of a micro-batch of ResNet-18 on CIFAR at 256.
StatisticsOfProgram statistics_of_resnet18(const std::string& gpu, const std::string& precision) {
  const Experiment experiment = load_experiment((configs / "bench" / "resnet18.yaml").string(),
                                                {"train.amp=" + precision, "train.batch_size=256"});
  const Program program = compile(experiment, describe_data(experiment.data, experiment.seed), PlannedDevice(gpu));
  StatisticsOfProgram found;
  for (const Instruction& instruction : program.micro_batches[0].first.instructions) {
    if (instruction.kind != Instruction::Kind::run) continue;
    const OpCall& call = program.calls[static_cast<std::size_t>(instruction.index)];
    if (call.op.kind == OpKind::batchnorm2d)
      found.num_given += attributes_of<BatchNorm2dAttributes>(call.op).given_sums ? 1 : 0;
    if (call.op.kind != OpKind::conv2d) continue;
    ++found.num_convolutions;
    if (!attributes_of<Conv2dAttributes>(call.op).statistics) continue;
    ++found.num_with_statistics;
    if (call.workspace >= 0)
      found.largest_workspace =
          std::max(found.largest_workspace, program.buffers[static_cast<std::size_t>(call.workspace)].num_bytes);
  }
  return found;
}

TEST_CASE("every batch norm of ResNet-18 in fp16 takes its convolution's statistics but that behind the image") {
  for (const std::string gpu : {"h100", "h200", "a100-80gb", "rtx4090"}) {
    INFO(gpu);
    const StatisticsOfProgram found = statistics_of_resnet18(gpu, "fp16");
    CHECK(found.num_convolutions == 20);
    CHECK(found.num_with_statistics == 19);
    CHECK(found.num_given == 19);
    CHECK(found.largest_workspace > 0);
    CHECK(found.largest_workspace <= std::int64_t{1} << 20);
  }
  for (const auto& [gpu, precision] : {std::pair("h100", "bf16"), {"h100", "off"}, {"b200", "fp16"}, {"t4", "fp16"}}) {
    INFO(gpu << " in " << precision);
    const StatisticsOfProgram found = statistics_of_resnet18(gpu, precision);
    CHECK(found.num_convolutions == 20);
    CHECK(found.num_with_statistics == 0);
    CHECK(found.num_given == 0);
  }
}

TEST_CASE("images of more elements than 32 bits count are planned too") {
  const CudnnPlans plans(properties_of("h200"));
  for (const bool tf32 : {false, true}) {
    for (ConvolutionCall call :
         {call_of({1025, 256, 256, 32}, 32, 3, 1, 1, 1), call_of({4096, 224, 224, 3}, 64, 7, 2, 1, 1)}) {
      call.tf32 = tf32;
      REQUIRE(std::max(call.x[0] * call.x[1] * call.x[2] * call.x[3], call.y[0] * call.y[1] * call.y[2] * call.y[3]) >
              std::int64_t{1} << 31);
      for (const auto direction : {ConvolutionDirection::forward, ConvolutionDirection::input_gradient,
                                   ConvolutionDirection::weight_gradient}) {
        call.direction = direction;
        CHECK(plans.find(call, 1)[0].workspace_bytes <= call.workspace_limit);
      }
    }
  }
}

TEST_CASE("a batch of more images than 32 bits count is an error that asks for a smaller one") {
  const CudnnPlans plans(properties_of("h200"));
  CHECK_THROWS_WITH(plans.find(call_of({std::int64_t{1} << 32, 2, 2, 1}, 4, 3, 1, 1, 1), 1),
                    Catch::Contains("4294967296×2×2×1") && Catch::Contains("use a smaller batch"));
}

TEST_CASE("properties that are none are an error that names the device") {
  CHECK_THROWS_AS(CudnnPlans("no JSON"), DeviceError);
  CHECK_THROWS_WITH(CudnnPlans(R"({"deviceName": "Abacus"})"), Catch::Contains("Abacus"));
}

}  // namespace

}  // namespace trainer::cuda
