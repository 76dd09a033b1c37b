#include "engine/report/logging/prometheus_sink.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

namespace trainer {
namespace {

constexpr double seconds_between_files = 1;

/// To some milliseconds, which costs a step nothing.
double coarse_seconds_since_1970() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

PrometheusSink::PrometheusSink(std::string path, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {}

void PrometheusSink::take(const Event& event) {
  note(event);
  if (path_.empty()) return;
  if (const auto* step = std::get_if<StepEvent>(&event)) unwritten_seconds_ += step->seconds;
  if (const auto* eval = std::get_if<EvalEvent>(&event)) unwritten_seconds_ += eval->seconds;
  const bool begins = std::holds_alternative<StartEvent>(event);
  if (!begins && !std::holds_alternative<EndEvent>(event) && unwritten_seconds_ < seconds_between_files) return;
  unwritten_seconds_ = 0;
  const std::string problem = write_file();
  if (problem.empty()) return;
  const std::string message = fmt::format("cannot write Prometheus' metrics: {}: {}", path_, problem);
  if (begins) throw DataError(message);
  if (!std::exchange(has_warned_, true)) warn_(message + "; training goes on, and the next second is tried again");
}

std::string PrometheusSink::text() const {
  LoggedRun run;
  {
    const std::lock_guard lock(mutex_);
    run = run_;
  }
  return prometheus_text(run);
}

void PrometheusSink::note(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (const auto* step = std::get_if<StepEvent>(&event)) {
    run_.step = *step;
    run_.step->stage = {};
    run_.step_time = coarse_seconds_since_1970();
    ++run_.num_steps;
    run_.num_samples += step->samples;
    if (step->tokens) run_.num_tokens += step->tokens->trained;
    if (step->skipped) ++run_.num_skipped;
    run_.training_seconds += step->seconds;
    run_.data_seconds += step->data_seconds;
  } else if (const auto* eval = std::get_if<EvalEvent>(&event)) {
    run_.evaluation = *eval;
    run_.evaluation->stage = {};
    ++run_.num_evaluations;
  } else if (const auto* start = std::get_if<StartEvent>(&event)) {
    run_.name = start->experiment != nullptr ? start->experiment->name : "";
    run_.device = start->device_kind;
    run_.device_name = start->device_name;
    run_.version = start->trainer_version;
    run_.capacity = start->capacity;
    run_.num_parameters = start->num_parameters;
    run_.num_planned_steps = start->total_steps;
    if (start->resumption) run_.last_checkpoint = start->resumption->step;
  } else if (const auto* stage = std::get_if<StageEvent>(&event)) {
    run_.stage = stage->name;
    run_.capacity = stage->capacity;
    run_.num_parameters = stage->num_parameters;
  } else if (const auto* checkpoint = std::get_if<CheckpointEvent>(&event)) {
    run_.last_checkpoint = checkpoint->step;
    ++run_.num_checkpoints;
  } else if (const auto* adaptation = std::get_if<AdaptEvent>(&event)) {
    run_.capacity = adaptation->change.capacity;
    ++run_.num_adaptations;
  } else if (std::holds_alternative<WarningEvent>(event)) {
    ++run_.num_warnings;
  } else if (const auto* end = std::get_if<EndEvent>(&event)) {
    run_.status = end->status;
  }
}

std::string PrometheusSink::write_file() const {
  const std::string text = this->text(), fresh = path_ + ".tmp";
  std::FILE* const file = std::fopen(fresh.c_str(), "wbe");
  if (file == nullptr) return std::strerror(errno);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  if (std::fclose(file) != 0 || !is_written) {
    std::string problem = std::strerror(is_written ? errno : error);
    std::remove(fresh.c_str());
    return problem;
  }
  if (std::rename(fresh.c_str(), path_.c_str()) == 0) return "";
  std::string problem = std::strerror(errno);
  std::remove(fresh.c_str());
  return problem;
}

}  // namespace trainer
