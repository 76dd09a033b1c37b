#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

bool machine_has_driver() { return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr; }

const std::vector<std::string> plan_words = {"plan", "configs/quickstart.yaml", "train.epochs=1"};

ProcessResult plan_with(const std::string& device, std::vector<std::pair<std::string, std::string>> environment) {
  std::vector<std::string> words = plan_words;
  words.push_back("device.type=" + device);
  return run_trainer(words, {.environment = std::move(environment)});
}

}  // namespace

TEST_CASE("a CUDA part that is not there is told with what to do, and doctor tells it too") {
  const std::vector<std::pair<std::string, std::string>> nowhere = {{"TRAINER_CUDA_MODULE", "/nowhere/cuda.so"}};
  const ProcessResult plan = plan_with("cuda", nowhere);
  CHECK(plan.exit_code == 7);
  CHECK_THAT(plan.err, Contains("no CUDA part") && Contains("/nowhere/cuda.so") && Contains("TRAINER_CUDA_MODULE") &&
                           Contains("device.type=cpu"));
  const ProcessResult doctor = run_trainer({"doctor"}, {.environment = nowhere});
  CHECK(doctor.exit_code == 0);
  CHECK_THAT(doctor.out, Contains("problem") && Contains("/nowhere/cuda.so"));
}

TEST_CASE("a file that is not the CUDA part is told") {
  ScratchFolder folder;
  const std::string file = folder / "cuda.so";
  std::fclose(std::fopen(file.c_str(), "w"));
  const ProcessResult empty = plan_with("cuda:1", {{"TRAINER_CUDA_MODULE", file}});
  CHECK(empty.exit_code == 7);
  CHECK_THAT(empty.err, Contains("cannot be loaded") && Contains(file));
  const ProcessResult other = plan_with("cuda", {{"TRAINER_CUDA_MODULE", "/proc/self/exe"}});
  CHECK(other.exit_code == 7);
  CHECK_THAT(other.err, Contains("device.type=cpu"));
}

TEST_CASE("a run that needs no CUDA does not load its part") {
  // The loader's own record of every file it opens.
  const std::vector<std::pair<std::string, std::string>> record = {{"LD_DEBUG", "files"}};
  const ProcessResult on_cpu = plan_with("cpu", record);
  CHECK(on_cpu.exit_code == 0);
  CHECK_THAT(on_cpu.err, Contains("libdnnl") && !Contains("libtrainer_cuda") && !Contains("libcublas"));
  if (machine_has_driver()) return;
  const ProcessResult automatic = plan_with("auto", record);
  CHECK(automatic.exit_code == 0);
  CHECK_THAT(automatic.err, Contains("libdnnl") && !Contains("libtrainer_cuda") && !Contains("libcublas"));
}

TEST_CASE("an automatic device is the CPU where there is no driver, without a word") {
  if (machine_has_driver()) return;
  const ProcessResult result = plan_with("auto", {});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
}

TEST_CASE("doctor tells either a GPU or why there is none") {
  const nlohmann::json report = nlohmann::json::parse(run_trainer({"doctor", "--json"}).out);
  std::size_t num_gpus = 0;
  for (const nlohmann::json& device : report["devices"]) num_gpus += device["kind"] == "cuda" ? 1 : 0;
  CHECK((num_gpus > 0) == report["cuda"]["problem"].get<std::string>().empty());
}
