#pragma once

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/memory_dataset.h"
#include "engine/config/load_experiment.h"
#include "engine/cpu/cpu_device.h"
#include "engine/program/run_schedule.h"
#include "engine/train/training_run.h"
#include "tests/described_events/described_events.h"

namespace trainer {

/// A folder of its own for each test, removed at the end; in memory where the system has such a place, since every
/// checkpoint is flushed.
class OutputFolder {
 public:
  OutputFolder() {
    const bool has_memory = access("/dev/shm", W_OK) == 0;
    const std::filesystem::path root = has_memory ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string pattern = (root / "trainer-train-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~OutputFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Keeps every event; asks for an interruption after one step where told to.
struct RecordingSink : DescribedSink {
  std::vector<StartEvent> starts;
  std::vector<StepEvent> steps;
  std::vector<EvalEvent> evaluations;
  std::vector<CheckpointEvent> checkpoints;
  std::vector<OutOfMemoryEvent> failures;
  std::vector<AdaptEvent> adaptations;
  std::vector<WarningEvent> warnings;
  std::vector<DivergedEvent> divergences;
  std::vector<EndEvent> ends;
  Interruption* interruption = nullptr;
  std::int64_t interrupt_after = -1;

  void take(const Event& event) override {
    DescribedSink::take(event);
    std::visit([this](const auto& told) { record(told); }, event);
  }

 private:
  void record(const StartEvent& event) { starts.push_back(event); }
  void record(const StageEvent&) {}
  void record(const StepEvent& event) {
    steps.push_back(event);
    if (interruption != nullptr && event.step == interrupt_after) ++interruption->requests;
  }
  void record(const EvalEvent& event) { evaluations.push_back(event); }
  void record(const CheckpointEvent& event) { checkpoints.push_back(event); }
  void record(const OutOfMemoryEvent& event) { failures.push_back(event); }
  void record(const AdaptEvent& event) { adaptations.push_back(event); }
  void record(const WarningEvent& event) { warnings.push_back(event); }
  void record(const DivergedEvent& event) { divergences.push_back(event); }
  void record(const EndEvent& event) { ends.push_back(event); }
};

/// A small network with everything whose state could be lost: batch norm, dropout, momentum, an odd last batch,
/// accumulation, evaluation, a schedule.
inline constexpr const char* small_experiment = R"(
name: small
seed: 7
data: {type: synthetic, shape: [6, 6, 2], classes: 4, samples: 44, validation_samples: 12}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - dropout: {p: 0.25}
    - flatten
    - linear: {out: 4, name: head}
optimizer: {type: adamw, lr: 0.01, weight_decay: 0.01}
schedule: {type: cosine, warmup_steps: 3}
train: {batch_size: 5, accumulation_steps: 2, steps: 40, eval_every: 8}
)";

struct TestRun {
  Experiment experiment;
  LoadedData data;
  TrainingOptions options;
  Interruption interruption;
  RecordingSink events;
  std::size_t num_warnings = 0;  ///< that the run is meant to tell
  int num_threads = 1;           ///< small networks gain nothing from more, and lose much on a busy machine

  explicit TestRun(const std::string& yaml, const std::string& output, std::vector<std::string> overrides = {}) {
    overrides.push_back("output=" + output);
    experiment = parse_experiment(yaml, "test.yaml", overrides);
    data = load_data(experiment.data, experiment.seed);
    options.trainer_version = "test";
  }
  RunStatus operator()(Device& device) {
    events.interruption = &interruption;
    const RunStatus status = run_training(experiment, data, device, options, interruption, events);
    const std::optional<std::int64_t> asked = experiment.train.batch_size.number();
    std::size_t num_told = asked && *asked > data.description.num_train ? 1 : 0;
    const bool has_smaller_evaluation = experiment.train.eval_batch_size > data.description.num_validation;
    if (has_smaller_evaluation && RunSchedule(experiment, data.description).evaluates()) ++num_told;
    // Frozen weights that nothing has learned.
    if (freezes_parameters() && experiment.weights.file.empty() && !options.resume) ++num_told;
    const auto learns_nothing = [](const StepEvent& step) { return step.loss == 0; };
    if (experiment.data.ignored_target >= 0 && std::ranges::any_of(events.steps, learns_nothing))
      ++num_told;                                                                     // all its targets are ignored
    CHECK(events.warnings.size() == num_warnings + num_told * events.starts.size());  // no run leaks
    return status;
  }
  RunStatus operator()() {
    const std::unique_ptr<Device> device = make_cpu_device(num_threads);
    return (*this)(*device);
  }

 private:
  /// Kinds of layers are frozen; freeze_norms: off leaves norms out.
  bool freezes_parameters() const {
    return std::ranges::any_of(experiment.freeze.entries, [&](const std::string& kind) {
      return experiment.freeze.norms != FrozenNorms::train || kind.find("norm") == std::string::npos;
    });
  }
};

/// Two features and a number; sample `bad` is not finite.
inline LoadedData numbers_with(float bad_value, std::int64_t bad) {
  std::vector<float> samples, targets;
  for (int i = 0; i < 20; ++i) {
    samples.push_back(i == bad ? bad_value : 0.1F * static_cast<float>(i));
    samples.push_back(1.0F);
    targets.push_back(0.5F);
  }
  const auto bytes = [](const std::vector<float>& values) {
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    return std::vector<std::byte>(begin, begin + values.size() * sizeof(float));
  };
  LoadedData data;
  data.train = std::make_shared<MemoryDataset>(TensorType{DType::f32, Shape{2}}, TensorType{DType::f32, Shape{1}},
                                               bytes(samples), bytes(targets));
  data.description.inputs = {{.type = {DType::f32, Shape{2}}, .mean = {}, .std = {}}};
  data.description.target = {DType::f32, Shape{1}};
  data.description.num_outputs = 1;
  data.description.num_train = 20;
  return data;
}

inline std::string checkpoint_file(const std::string& output, int step, const std::string& name) {
  char folder[32];
  std::snprintf(folder, sizeof(folder), "/step-%08d/", step);
  return output + "/checkpoints" + folder + name;
}

/// Whether two runs under `folder` saved the same bytes. (A comparison of the bytes would print them.)
inline bool same_file(const OutputFolder& folder, const std::string& run, const std::string& other, int step,
                      const std::string& name) {
  return file_bytes(checkpoint_file(folder.path(run), step, name)) ==
         file_bytes(checkpoint_file(folder.path(other), step, name));
}

}  // namespace trainer
