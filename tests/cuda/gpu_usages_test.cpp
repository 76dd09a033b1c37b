#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/device/nvml.h"

using namespace trainer;
using namespace trainer::cuda;

namespace {

/// A machine of three GPUs, the second of which this process may not see.
NvmlCalls calls_of_three() {
  static int places[3];
  NvmlCalls calls;
  calls.count = [](unsigned int* count) {
    *count = 3;
    return 0;
  };
  calls.handle_at = [](unsigned int index, NvmlCalls::Handle* handle) {
    *handle = &places[index];
    return index == 1 ? 4 : 0;
  };
  calls.memory = [](NvmlCalls::Handle handle, NvmlCalls::Memory* memory) {
    *memory = handle == &places[0] ? NvmlCalls::Memory{1000, 700, 300} : NvmlCalls::Memory{500, 500, 0};
    return 0;
  };
  calls.processes = [](NvmlCalls::Handle handle, unsigned int* count, NvmlCalls::Process* listed) {
    *count = handle == &places[0] ? 2 : 0;
    if (*count == 0) return 0;
    listed[0] = {4000001, 100, 0, 0};
    listed[1] = {4000002, 200, 0, 0};
    return 0;
  };
  return calls;
}

}  // namespace

TEST_CASE("every GPU that can be seen is told by its number, with what holds its memory") {
  NvmlCalls calls = calls_of_three();
  calls.name = [](NvmlCalls::Handle, char* text, unsigned int length) {
    std::strncpy(text, "NVIDIA H200", length);
    return 0;
  };
  calls.utilization = [](NvmlCalls::Handle, NvmlCalls::Utilization* utilization) {
    *utilization = {97, 30};
    return 0;
  };
  calls.temperature = [](NvmlCalls::Handle, int sensor, unsigned int* celsius) {
    *celsius = 61;
    return sensor == NvmlCalls::gpu_sensor ? 0 : 2;
  };
  calls.power = [](NvmlCalls::Handle, unsigned int* milliwatts) {
    *milliwatts = 320400;
    return 0;
  };
  const std::vector<GpuUsage> gpus = gpu_usages(calls);
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0].index == 0);
  CHECK(gpus[0].name == "NVIDIA H200");
  CHECK(gpus[0].used_bytes == 300);
  CHECK(gpus[0].total_bytes == 1000);
  CHECK(gpus[0].busy_percent == 97);
  CHECK(gpus[0].celsius == 61);
  CHECK(gpus[0].watts == 320.4);
  REQUIRE(gpus[0].processes.size() == 2);
  CHECK(gpus[0].processes[0].pid == 4000002);
  CHECK(gpus[1].index == 2);
  CHECK(gpus[1].processes.empty());
}

TEST_CASE("a library that tells less of GPUs is asked for no more") {
  const std::vector<GpuUsage> gpus = gpu_usages(calls_of_three());
  REQUIRE(gpus.size() == 2);
  CHECK_FALSE(gpus[0].busy_percent);
  CHECK_FALSE(gpus[0].celsius);
  CHECK_FALSE(gpus[0].watts);
  NvmlCalls refusing = calls_of_three();
  refusing.power = [](NvmlCalls::Handle, unsigned int*) { return 3; };
  CHECK_FALSE(gpu_usages(refusing).at(0).watts);
  CHECK(gpu_usages(NvmlCalls{}).empty());
}
