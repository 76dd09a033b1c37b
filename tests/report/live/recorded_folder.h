#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/report/run/event_json.h"
#include "tests/temporary_folder.h"

namespace trainer {

/// A folder of runs, gone with the test.
class FolderOfRuns : public TemporaryFolder {
 public:
  std::string of(const std::string& run) const { return *this / run; }
  /// Behind what is there.
  void tell(const std::string& run, const std::string& text) const {
    std::filesystem::create_directories(of(run));
    std::ofstream(of(run) + "/events.jsonl", std::ios::app | std::ios::binary) << text;
  }
  void tell(const std::string& run, const Event& event) const { tell(run, event_json(event) + '\n'); }
};

inline StartEvent live_start(std::int64_t total_steps = 100) {
  StartEvent start;
  start.device_kind = "cpu";
  start.device_name = "AMD EPYC, 2 threads";
  start.capacity = std::int64_t{8} << 20;
  start.num_parameters = 10;
  start.total_steps = total_steps;
  start.steps_per_epoch = 10;
  start.batch_size = 4;
  CategoryBytes planned{};
  planned[static_cast<std::size_t>(Category::parameter)] = std::int64_t{1} << 20;
  planned[static_cast<std::size_t>(Category::activation)] = std::int64_t{3} << 20;
  start.planned_by_category = planned;
  start.teller = {.pid = 1, .host = "", .begin_seconds = 1000};
  return start;
}

inline StepEvent live_step(std::int64_t number, double loss = 0.5) {
  StepEvent event;
  event.step = number;
  event.epoch = (number - 1) / 10 + 1;
  event.loss = loss;
  event.learning_rate = 0.01;
  event.samples = 4;
  event.seconds = 0.5;
  event.data_seconds = 0.125;
  event.memory.step.peak_allocated = std::int64_t{4} << 20;
  event.memory.step.peak_reserved = event.memory.step.reserved = std::int64_t{6} << 20;
  event.memory.step.allocated = std::int64_t{1} << 20;
  event.memory.device_used = std::int64_t{20} << 20;
  event.memory.device_total = std::int64_t{1} << 30;
  return event;
}

inline EvalEvent live_evaluation(std::int64_t step, double loss, bool best) {
  EvalEvent event;
  event.step = step;
  event.epoch = 1;
  event.loss = loss;
  event.accuracy = 1 - loss;
  event.samples = 8;
  event.seconds = 1;
  event.best = best;
  return event;
}

}  // namespace trainer
