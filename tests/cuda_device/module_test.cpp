#include "cuda/device/module.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "cuda/model/load_module.h"
#include "engine/errors.h"

using namespace trainer;
using namespace trainer::cuda;
using Catch::Contains;

namespace {

const Module& module() {
  setenv("TRAINER_CUDA_MODULE", TRAINER_CUDA_MODULE_FILE, 1);
  std::string problem;
  const Module* loaded = load_module(problem);
  INFO(problem);
  REQUIRE(loaded != nullptr);
  return *loaded;
}

}  // namespace

TEST_CASE("an error of the module is caught as the program's own") {
  bool caught = false;
  try {
    module().make_device(63, {});
  } catch (const DeviceError& error) {
    caught = true;
    CHECK(error.exit_code() == ExitCode::device);
    CHECK_THAT(error.what(), Contains("device.type=cpu"));
  }
  CHECK(caught);
  CHECK_THROWS_AS(module().make_device(63, {}), Error);
  CHECK_THROWS_AS(module().make_device(63, {}), std::runtime_error);
}

TEST_CASE("the module tells its versions and its kernels without a GPU") {
  const CudaFacts facts = module().facts(false);
  CHECK_THAT(facts.toolkit, Catch::Matches("[0-9]+\\.[0-9]+"));
  CHECK_THAT(facts.cublas, Catch::Matches("[0-9]+\\.[0-9]+\\.[0-9]+"));
  CHECK_THAT(facts.cudnn, Catch::Matches("9\\.[0-9]+\\.[0-9]+"));
  CHECK_THAT(facts.architectures, Catch::Matches("(sm_[0-9]+ )+compute_[0-9]+"));
  // Either there is a device, or it is said why not.
  CHECK(facts.problem.empty() != facts.devices.empty());
  for (const CudaDeviceInfo& device : facts.devices) CHECK(device.total_bytes > 0);
}
