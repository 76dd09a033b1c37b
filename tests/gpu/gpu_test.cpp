#include <catch2/catch.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cuda/model/load_module.h"
#include "engine/cpu/cpu_device.h"
#include "engine/errors.h"
#include "tests/op_cases/half_cases.h"
#include "tests/op_cases/op_checks.h"
#include "tests/op_cases/op_timing.h"
#include "tests/op_cases/statistics_checks.h"
#include "tests/op_cases/update_checks.h"
#include "tests/source_folder.h"
#include "tests/whole_runs/device_checks.h"
#include "tests/whole_runs/statistics_run_checks.h"

using namespace trainer;

// [sanitizer]: what compute-sanitizer looks at, with few cases of each op (tests/op_cases/case_selection.h).

namespace {

/// The machine's GPU, or null, having said SKIPPED and why.
std::unique_ptr<Device> gpu(const cuda::CudaOptions& options = {}) {
  std::string problem;
  const cuda::Module* module = cuda::load_module(problem);
  if (module != nullptr) {
    try {
      return module->make_device(0, options);
    } catch (const DeviceError& error) {
      problem = error.what();
    }
  }
  std::cout << "SKIPPED: " << problem << '\n';
  return nullptr;
}

}  // namespace

TEST_CASE("Every op on the GPU computes what a reference in double computes", "[ops][sanitizer]") {
  if (const auto device = gpu()) check_against_references(*device);
}

TEST_CASE("Every op on the GPU gives the same bits again", "[ops]") {
  if (const auto device = gpu()) check_repeatable(*device);
}

TEST_CASE("Every op on the GPU that may write over an input computes the same bits there", "[ops]") {
  if (const auto device = gpu()) check_in_place(*device);
}

TEST_CASE("Every op on 16-bit operands on the GPU computes what a reference in double does", "[ops][sanitizer]") {
  if (const auto device = gpu())
    for (const DType type : {DType::f16, DType::bf16})
      check_against_references(*device, with_rounded_weights(half_cases(type), type));
}

TEST_CASE("Every op on 16-bit operands on the GPU gives the same bits again, also over an input", "[ops]") {
  if (const auto device = gpu()) {
    for (const DType type : {DType::f16, DType::bf16}) {
      check_repeatable(*device, half_cases(type));
      check_in_place(*device, half_cases(type));
    }
  }
}

TEST_CASE("Every op on the GPU computes what the CPU's does, at sizes around blocks and packs", "[ops][sanitizer]") {
  if (const auto device = gpu()) check_against_device(*device, *make_cpu_device(0));
}

TEST_CASE("Every op on 16-bit operands on the GPU computes what the CPU's does, at such sizes", "[ops][sanitizer]") {
  if (const auto device = gpu())
    for (const DType type : {DType::f16, DType::bf16})
      check_against_device(*device, *make_cpu_device(0), with_rounded_weights(larger_half_cases(type), type));
}

TEST_CASE("Attention on the GPU that may differ from run to run is as the CPU's, whoever serves it",
          "[ops][sanitizer]") {
  if (const auto device = gpu({.deterministic = false}))
    for (const DType type : {DType::f16, DType::bf16}) {
      check_against_device(*device, *make_cpu_device(0), larger_attention_cases(type));
      for (const std::string& note : device->notes()) FAIL_CHECK(note);
    }
}

TEST_CASE("A convolution with statistics on the GPU gives the sums of what it computes", "[ops]") {
  if (const auto device = gpu())
    if (check_statistics_of_convolutions(*device) == 0) std::cout << "SKIPPED: cuDNN has no statistics for this GPU\n";
}

TEST_CASE("Workspace on the GPU is a function of the op", "[ops]") {
  const auto device = gpu(), other = gpu();
  if (device && other) check_workspace_and_sharing(*device, *other);
}

TEST_CASE("Batch norms of fp16 runs on the GPU take the statistics of the convolutions in front of them") {
  if (const auto device = gpu()) check_runs_with_statistics(*device);
}

TEST_CASE("Whole runs on the GPU end in PyTorch's losses and weights") {
  if (const auto device = gpu()) check_golden_networks(*device);
}

TEST_CASE("The plan of a run on the GPU is the run's memory, step by step") {
  if (const auto device = gpu()) check_plan_equals_run(*device);
}

TEST_CASE("Every kind of layer trains on the GPU as on the CPU") {
  if (const auto device = gpu()) check_losses_of_cpu(*device);
}

TEST_CASE("Averages of weights on the GPU are those of the CPU") {
  if (const auto device = gpu())
    check_losses_of_cpu(*device, {"average={type: ema, decay: 0.8}", "train.eval_every=4"});
}

TEST_CASE("Every model that is shipped trains on the GPU as on the CPU") {
  if (const auto device = gpu()) check_shipped_models(*device);
}

TEST_CASE("A loss on features of a frozen network trains on the GPU as on the CPU") {
  if (const auto device = gpu()) check_frozen_network(*device);
}

TEST_CASE("Techniques that hold less memory change no bit on the GPU, or round as they say") {
  if (const auto device = gpu()) check_memory_techniques(*device);
}

TEST_CASE("Weights and moments of few bits and the loss scale on the GPU are as they promise", "[ops][sanitizer]") {
  if (const auto device = gpu()) {
    check_stochastic_rounding(*device);
    check_moment_errors(*device);
    check_training_with_8_bit_moments(*device);
    check_lost_weights(*device);
    check_loss_scale_sequences(*device, source_folder() + "/tests/golden/grad_scaler.txt");
  }
}

TEST_CASE("Steps on the GPU that repeat themselves are replayed bit for bit") {
  if (const auto device = gpu()) check_replays(*device);
}

TEST_CASE("A hundred failures for lack of memory leave the GPU as it was") {
  if (const auto device = gpu()) check_out_of_memory_leaves_nothing(*device);
}

TEST_CASE("A run on the GPU that waits after each op computes the same") {
  if (const auto device = gpu()) check_synchronous_run(*device);
}

TEST_CASE("One batch that is not finite ends the run at its own step, though the next was queued on the GPU") {
  if (const auto device = gpu()) check_divergence(*device);
}

TEST_CASE("Weights that a step loses on the GPU end the run at that step, though its loss is finite") {
  if (const auto device = gpu()) check_lost_weights_end_runs(*device);
}

TEST_CASE("Benchmark: what each op takes on the GPU", "[.benchmark]") {
  if (const auto device = gpu()) time_ops(*device, std::cout);
}
