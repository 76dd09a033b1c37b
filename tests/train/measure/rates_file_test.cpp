#include "engine/train/measure/rates_file.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "datasets/dataset.h"
#include "engine/config/load_experiment.h"
#include "engine/device/device.h"
#include "engine/program/compile.h"
#include "engine/train/measure/calibration_networks.h"
#include "engine/train/measure/kept_file.h"
#include "tests/device/described_device.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

/// Figures that no short decimal writes exactly.
MachineRates some_rates() {
  MachineRates rates;
  rates.origin = MachineRates::Origin::measured;
  double figure = 1e9 / 3;
  for (RateTable* table : {&rates.f32, &rates.half})
    for (auto& kinds : *table)
      for (OpRate& kind : kinds) kind = {figure *= 1.01, figure / 7, 1 / figure};
  rates.step_seconds = 1e-4 / 3;
  return rates;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

}  // namespace

TEST_CASE("Rates survive their file to the bit, and replace what was there") {
  const OutputFolder folder;
  const std::string path = folder.path("cache/trainer/rates.json");
  CHECK(!read_rates(path, "a CPU"));
  require_writable(path);
  MachineRates rates = some_rates();
  write_rates(path, "a CPU", assumed_cpu_rates(5));
  write_rates(path, "a CPU", rates);
  rates.source = path;
  const auto read = read_rates(path, "a CPU");
  REQUIRE(read);
  CHECK(*read == rates);
  // Nothing unfinished stays behind.
  CHECK(std::distance(fs::directory_iterator(fs::path(path).parent_path()), {}) == 1);
}

TEST_CASE("A damaged or foreign file of rates is refused with what to do, wherever it is damaged") {
  const OutputFolder folder;
  const std::string path = folder.path("rates.json");
  write_rates(path, "a CPU", some_rates());
  const std::string whole = text_of(path);
  const auto is_refused = [&](const std::string& text) {
    write(path, text);
    CHECK_THROWS_WITH(read_rates(path, "a CPU"), Contains(path) && Contains("trainer bench"));
  };
  is_refused("");
  is_refused("[]");
  is_refused("{}");
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  is_refused(R"({"format": 1, "device": )" + deep + "}");
  is_refused(deep);
  for (std::size_t length = 1; length + 2 < whole.size(); length += whole.size() / 37)
    is_refused(whole.substr(0, length));
  is_refused(replaced(whole, "\"format\": 1", "\"format\": 2"));
  is_refused(replaced(whole, "\"linear\"", "\"no_such_op\""));
  is_refused(replaced(whole, "\"flops_per_second\": ", "\"flops_per_second\": -"));
  is_refused(replaced(whole, "\"bytes_per_second\": ", "\"bytes_per_second\": 0, \"x\": "));
  is_refused(replaced(whole, "\"bytes_per_second\": ", "\"bytes_per_second\": 0.5, \"x\": "));
  is_refused(replaced(whole, "\"flops_per_second\": ", "\"flops_per_second\": 1e31, \"x\": "));
  is_refused(replaced(whole, "\"flops_per_second\": ", "\"flops_per_second\": 1e999, \"x\": "));
  for (const char* wrong : {"0", "0.0", "-1e-6", "1e10", "\"1e-6\"", "null"}) {
    INFO(wrong);
    for (const char* name : {"\"call_seconds\": ", "\"step_seconds\": "})
      is_refused(replaced(whole, name, name + std::string(wrong) + ", \"x\": "));
  }
  write(path, whole);
  CHECK(read_rates(path, "a CPU"));
  CHECK_THROWS_WITH(read_rates(path, "another CPU"), Contains("a CPU") && Contains("trainer bench"));
  fs::remove(path);
  fs::create_directory(path);
  CHECK_THROWS_WITH(read_rates(path, "a CPU"), Contains("trainer bench"));
}

TEST_CASE("Rates lie where caches do, under a name that is a file's") {
  REQUIRE(setenv("XDG_CACHE_HOME", "/somewhere", 1) == 0);
  CHECK(rates_path("AMD EPYC 9 (x/y), 2 threads") == "/somewhere/trainer/rates-AMD-EPYC-9-x-y-2-threads.json");
  REQUIRE(unsetenv("XDG_CACHE_HOME") == 0);
  REQUIRE(setenv("HOME", "/home/someone", 1) == 0);
  CHECK(rates_path("NVIDIA H200") == "/home/someone/.cache/trainer/rates-NVIDIA-H200.json");
  REQUIRE(unsetenv("HOME") == 0);
  CHECK_THROWS_WITH(rates_path("NVIDIA H200"), Contains("XDG_CACHE_HOME"));
}

TEST_CASE("What cannot be written says where and why, and leaves nothing") {
  const OutputFolder folder;
  write(folder.path("file"), "");
  CHECK_THROWS_AS(require_writable(folder.path("file/rates.json")), DataError);
  CHECK_THROWS_AS(write_rates(folder.path("file/rates.json"), "a CPU", some_rates()), DataError);
  CHECK(text_of(folder.path("file")).empty());
}

TEST_CASE(
    "The networks of the calibration have every kind of op that a step can have, in f32 and where it exists in 16 "
    "bit") {
  std::set<OpKind> kinds, half_kinds;
  const DescribedDevice device;
  for (const CalibrationNetwork& network : calibration_networks()) {
    const Experiment experiment = parse_experiment(network.yaml, network.name);
    const DataDescription data = describe_data(experiment.data, experiment.seed);
    const Program program = compile(experiment, data, device);
    const RunSchedule schedule(experiment, data);
    CHECK(schedule.total_steps() >= 1);
    CHECK(experiment.train.batch_size == schedule.batch_size());
    CHECK(program.evaluations.empty());
    for (const OpCall& call : program.calls) {
      kinds.insert(call.op.kind);
      if (has_half_operand(call.op)) half_kinds.insert(call.op.kind);
    }
  }
  // Of evaluations, texts that are written and frozen networks; losses of steps come with their gradients. No synthetic
  // data has tokens. The calibration is one process, without other ranks.
  const std::set<OpKind> not_in_steps = {OpKind::batchnorm2d_inference_backward,
                                         OpKind::batchnorm2d_inference,
                                         OpKind::batchnorm2d_sums,
                                         OpKind::batchnorm2d_statistics,
                                         OpKind::batchnorm2d_gradient_sums,
                                         OpKind::batchnorm2d_normalize_backward,
                                         OpKind::cached_attention,
                                         OpKind::cross_entropy,
                                         OpKind::cross_entropy_backward,
                                         OpKind::linear_cross_entropy,
                                         OpKind::class_order,
                                         OpKind::class_statistics,
                                         OpKind::confusion_matrix,
                                         OpKind::cross_entropy_of_parts,
                                         OpKind::cross_entropy_of_parts_backward,
                                         OpKind::document_spans,
                                         OpKind::embedding,
                                         OpKind::embedding_backward,
                                         OpKind::error_statistics,
                                         OpKind::fill_zero,
                                         OpKind::gradient_squares,
                                         OpKind::keep_part_statistics,
                                         OpKind::sum_part_statistics,
                                         OpKind::all_reduce,
                                         OpKind::reduce_scatter,
                                         OpKind::all_gather,
                                         OpKind::broadcast,
                                         OpKind::send,
                                         OpKind::receive,
                                         OpKind::finish_exchange};
  for (int i = 0; i < num_op_kinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    INFO(name_of(kind));
    CHECK(kinds.contains(kind) != not_in_steps.contains(kind));
  }
  for (const OpKind kind : {OpKind::linear,
                            OpKind::linear_backward_input,
                            OpKind::linear_backward_weight,
                            OpKind::conv2d,
                            OpKind::conv2d_backward_input,
                            OpKind::conv2d_backward_weight,
                            OpKind::batchnorm2d,
                            OpKind::batchnorm2d_backward,
                            OpKind::batchnorm2d_normalize,
                            OpKind::layernorm,
                            OpKind::layernorm_backward,
                            OpKind::groupnorm,
                            OpKind::groupnorm_backward,
                            OpKind::groupnorm_normalize,
                            OpKind::activation,
                            OpKind::activation_backward,
                            OpKind::maxpool2d,
                            OpKind::avgpool2d,
                            OpKind::conv_transpose2d,
                            OpKind::conv_transpose2d_backward_weight,
                            OpKind::adaptive_avgpool2d,
                            OpKind::upsample,
                            OpKind::pad,
                            OpKind::global_avgpool,
                            OpKind::flatten,
                            OpKind::dropout,
                            OpKind::add,
                            OpKind::cast,
                            OpKind::sgd_update,
                            OpKind::adam_update}) {
    INFO(name_of(kind));
    CHECK(half_kinds.contains(kind));
  }
}
