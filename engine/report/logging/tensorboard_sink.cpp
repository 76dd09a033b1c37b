#include "engine/report/logging/tensorboard_sink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "engine/config/load_experiment.h"
#include "engine/report/logging/run_parameters.h"
#include "engine/report/run/adaptation_report.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

using LiveClock = std::chrono::steady_clock;

constexpr std::chrono::seconds longest_unflushed{1};

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Markdown that shows the text as it is.
std::string literal(std::string_view text) {
  std::string markdown = "    ";
  for (const char letter : text) {
    markdown += letter;
    if (letter == '\n') markdown += "    ";
  }
  return markdown;
}

/// Behind all that the folder has, whose names begin with their second in ten digits; one of more was never a clock's.
std::string next_event_file(const std::vector<std::string>& former) {
  constexpr std::int64_t last_second = 9'999'999'999;
  auto second = static_cast<std::int64_t>(seconds_since_1970());
  for (const std::string& name : former)
    if (const std::int64_t taken = second_of_tensorboard_file(name); taken < last_second)
      second = std::max(second, taken + 1);
  return tensorboard_file(second);
}

}  // namespace

TensorBoardSink::TensorBoardSink(std::string directory, std::vector<std::string> overrides,
                                 std::function<void(const std::string&)> warn)
    : directory_(std::move(directory)), overrides_(std::move(overrides)), warn_(std::move(warn)) {}

void TensorBoardSink::take(const Event& event) {
  if (const auto* start = std::get_if<StartEvent>(&event)) return begin(*start);
  if (!file_) return;
  if (const auto* step = std::get_if<StepEvent>(&event)) return note(*step);
  write_waiting();
  if (const auto* stage = std::get_if<StageEvent>(&event)) note(*stage);
  if (const auto* eval = std::get_if<EvalEvent>(&event)) note(*eval);
  if (const auto* warning = std::get_if<WarningEvent>(&event)) note(warning->step, "warning: " + warning->message);
  if (const auto* adaptation = std::get_if<AdaptEvent>(&event)) note(adaptation->step, adaptation_message(*adaptation));
  if (const auto* divergence = std::get_if<DivergedEvent>(&event))
    note(divergence->step,
         fmt::format("diverged in step {}: {} {}", divergence->step, divergence->tensor, divergence->layer));
  if (const auto* end = std::get_if<EndEvent>(&event)) note(*end);
  flush(true);
  if (std::holds_alternative<EndEvent>(event) && file_ && std::fclose(file_.release()) != 0) fail();
}

void TensorBoardSink::make_durable() {
  if (!file_) return;
  write_waiting();
  flush(true);
  // What is no file on a disk says EINVAL.
  if (file_ && fsync(fileno(file_.get())) != 0 && errno != EINVAL) fail();
}

void TensorBoardSink::begin(const StartEvent& event) {
  if (event.leaves_former_run || (event.resumption && !event.resumption->trains)) return;
  std::vector<std::string> former = tensorboard_files_in(directory_);
  if (!event.resumption) {
    for (const std::string& name : former) {
      std::error_code ignored;
      std::filesystem::remove(std::filesystem::path(directory_) / name, ignored);
    }
  }
  std::error_code ignored;
  std::filesystem::create_directories(directory_, ignored);
  path_ = (std::filesystem::path(directory_) / next_event_file(former)).string();
  file_.reset(std::fopen(path_.c_str(), "wbe"));
  if (!file_) throw DataError(fmt::format("cannot write TensorBoard's events: {}: {}", path_, std::strerror(errno)));
  sync_directory(directory_.empty() ? "." : directory_);
  step_ = event.first_step - 1;
  const double now = seconds_since_1970();
  write(version_event(now));
  if (event.resumption) write(session_start_event(now, event.first_step));
  if (event.experiment != nullptr) {
    write(hyperparameters_event(now, run_parameters(resolved_json(*event.experiment), overrides_)));
    write(text_event(now, step_, "configuration", literal(resolved_yaml(*event.experiment))));
  }
  flush(true);
}

void TensorBoardSink::note(const StageEvent& event) {
  const LiveScalar number{"progress/stage", static_cast<double>(event.index + 1)};
  write_scalars(event.first_step, {&number, 1});
  std::string text = fmt::format("stage {} of {}, {}: ", event.index + 1, event.count, event.name);
  text += event.first_step > event.last_step
              ? "no steps"
              : fmt::format("steps {} to {} in batches of {}, {} of {} parameters trained", event.first_step,
                            event.last_step, event.batch_size, event.num_trained, event.num_parameters);
  write(text_event(seconds_since_1970(), event.first_step, "stages", literal(text)));
}

void TensorBoardSink::note(const StepEvent& event) {
  step_ = event.step;
  if (!thinning_.takes(event)) return;
  write_scalars(event.step, scalars_.of(event));
  flush(false);
}

void TensorBoardSink::note(const EvalEvent& event) {
  step_ = event.step;
  write_scalars(event.step, scalars_.of(event));
}

void TensorBoardSink::note(const EndEvent& event) {
  note(event.steps, event.error.empty()
                        ? fmt::format("ended after {} steps: {}", event.steps, event.status)
                        : fmt::format("ended after {} steps: {}: {}", event.steps, event.status, event.error));
  // The HPARAMS tab believes the first one that it reads, and whatever else ended may be resumed and be done then.
  if (event.status == "done") write(session_end_event(seconds_since_1970(), event.steps));
}

void TensorBoardSink::note(std::int64_t step, const std::string& text) {
  write(text_event(seconds_since_1970(), step, "notes", literal(text)));
}

void TensorBoardSink::write_waiting() {
  if (const StepEvent* step = thinning_.take_waiting()) write_scalars(step->step, scalars_.of(*step));
}

void TensorBoardSink::write_scalars(std::int64_t step, std::span<const LiveScalar> scalars) {
  write_scalars_event(seconds_since_1970(), step, scalars, event_);
  write(event_.bytes());
}

void TensorBoardSink::add(std::int64_t step, const std::string& tag, std::span<const float> numbers) {
  if (!file_) return;
  if (histogram_ && histogram_tag_ != tag) write_histogram();
  if (!histogram_) {
    histogram_.emplace();
    histogram_tag_ = tag;
    histogram_step_ = step;
  }
  histogram_->add(numbers);
}

void TensorBoardSink::finish() {
  write_histogram();
  flush(true);
}

void TensorBoardSink::write_histogram() {
  if (!histogram_) return;
  write(histogram_event(seconds_since_1970(), histogram_step_, histogram_tag_, histogram_->message()));
  histogram_.reset();
}

void TensorBoardSink::write(std::string_view event) {
  if (!file_) return;
  record_.clear();
  append_event_record(event, record_);
  if (std::fwrite(record_.data(), 1, record_.size(), file_.get()) != record_.size()) fail();
}

void TensorBoardSink::flush(bool is_urgent) {
  if (!file_) return;
  const LiveClock::time_point now = LiveClock::now();
  if (!is_urgent && now - last_flush_ < longest_unflushed) return;
  last_flush_ = now;
  if (std::fflush(file_.get()) != 0) fail();
}

void TensorBoardSink::fail() {
  const int error = errno;
  file_.reset();
  warn_(fmt::format("cannot write TensorBoard's events: {}: {}; nothing more is written there, and training goes on",
                    path_, std::strerror(error)));
}

}  // namespace trainer
