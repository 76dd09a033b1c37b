#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/device_checks.h"
#include "tests/whole_runs/torchvision_networks.h"

using namespace trainer;

TEST_CASE("Whole runs through CUDA's kernels and library calls end in PyTorch's losses and weights") {
  const auto device = cuda::make_emulated_device();
  check_golden_networks(*device);
}

TEST_CASE("Logits, loss and gradients of a ResNet and of U-Nets through CUDA's ops are PyTorch's") {
  const auto device = cuda::make_emulated_device();
  for (const char* name : {"resnet18", "unet", "unet_bilinear"}) check_torchvision_network(*device, name);
}

TEST_CASE("The plan of a run through CUDA's ops is the run's memory, step by step") {
  const auto device = cuda::make_emulated_device();
  check_plan_equals_run(*device);
}

TEST_CASE("Every kind of layer trains through CUDA's ops as on the CPU") {
  const auto device = cuda::make_emulated_device();
  check_losses_of_cpu(*device);
}

TEST_CASE("Averages of weights through CUDA's ops are those of the CPU") {
  const auto device = cuda::make_emulated_device();
  check_losses_of_cpu(*device, {"average={type: ema, decay: 0.8}", "train.eval_every=4"});
}

TEST_CASE("Every model that is shipped trains through CUDA's ops as on the CPU") {
  const auto device = cuda::make_emulated_device();
  check_shipped_models(*device);
}

TEST_CASE("A loss on features of a frozen network trains through CUDA's ops as on the CPU") {
  const auto device = cuda::make_emulated_device();
  check_frozen_network(*device);
}

TEST_CASE("Techniques that hold less memory change no bit through CUDA's ops, or round as they say") {
  const auto device = cuda::make_emulated_device();
  check_memory_techniques(*device);
}

TEST_CASE("Steps that repeat themselves are replayed bit for bit") {
  const auto device = cuda::make_emulated_device();
  check_replays(*device);
}

TEST_CASE("A hundred failures for lack of memory leave the device as it was") {
  const auto device = cuda::make_emulated_device();
  check_out_of_memory_leaves_nothing(*device);
}

TEST_CASE("A run that waits after each op computes the same") {
  const auto device = cuda::make_emulated_device();
  check_synchronous_run(*device);
}

TEST_CASE("One batch that is not finite ends the run at its own step, though the next was queued") {
  const auto device = cuda::make_emulated_device();
  check_divergence(*device);
}

TEST_CASE("Weights that a step loses end the run at that step, though its loss is finite") {
  const auto device = cuda::make_emulated_device();
  check_lost_weights_end_runs(*device);
}
