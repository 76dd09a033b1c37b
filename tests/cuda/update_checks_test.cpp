// Updates on the CUDA device's kernels, run on the host.

#include <catch2/catch.hpp>

#include "tests/cuda/emulated_device.h"
#include "tests/op_cases/update_checks.h"

namespace trainer::cuda {

TEST_CASE("CUDA rounds bf16 weights at random without a bias") { check_stochastic_rounding(*make_emulated_device()); }

TEST_CASE("CUDA's 8-bit moments err by no more than is said of them") { check_moment_errors(*make_emulated_device()); }

TEST_CASE("AdamW with 8-bit moments trains on CUDA as with f32 ones") {
  check_training_with_8_bit_moments(*make_emulated_device());
}

TEST_CASE("CUDA's updates tell of weights that are lost") { check_lost_weights(*make_emulated_device()); }

TEST_CASE("CUDA's loss scale and what is updated under it are PyTorch's") {
  check_loss_scale_sequences(*make_emulated_device(), TRAINER_SOURCE_DIR "/tests/golden/grad_scaler.txt");
}

}  // namespace trainer::cuda
