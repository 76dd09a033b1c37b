#include "engine/report/live/live_run.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "engine/config/text/json_input.h"
#include "engine/errors.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

using LiveInput = JsonInput<Json>;

/// What speeds are means of: the last steps that took so long together, no more than so many.
constexpr double least_recent_seconds = 5;
constexpr std::size_t most_recent_steps = 256;

/// So that sums of all categories are numbers, too.
constexpr std::int64_t most_told_bytes = std::int64_t{1} << 58;

std::optional<CategoryBytes> categories_in(const Json& event, std::string_view name) {
  const std::optional<LiveInput> told = LiveInput(event).find(name);
  if (!told || told->is_null()) return std::nullopt;
  CategoryBytes bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (const std::optional<LiveInput> value = told->find(category_names[i]))
      bytes[i] = value->integer(0, most_told_bytes);
  return bytes;
}

double sum_of(const std::deque<RecordedStep>& steps, double RecordedStep::*member) {
  double sum = 0;
  for (const RecordedStep& step : steps) sum += step.*member;
  return sum;
}

}  // namespace

std::string name_of(LiveState state) {
  switch (state) {
    case LiveState::waiting:
      return "waiting";
    case LiveState::running:
      return "running";
    case LiveState::unknown:
      return "unfinished";
    case LiveState::killed:
      return "killed";
    case LiveState::done:
      return "done";
    case LiveState::out_of_memory:
      return "oom";
    case LiveState::interrupted:
      return "interrupted";
    case LiveState::diverged:
      return "diverged";
    case LiveState::failed:
      return "failed";
    case LiveState::ended:
      return "ended";
    case LiveState::damaged:
      return "damaged";
  }
  return "";
}

void LiveRun::update(std::int64_t most_bytes) {
  const std::string path = folder_ + '/' + events_file;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;  // not yet, or not any more: what was told stays
  written_seconds_ = static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  const bool is_another = status.st_dev != device_ || status.st_ino != node_ || status.st_size < seen_bytes_;
  if (!is_another && (!damage_.empty() || (status.st_size == seen_bytes_ && !has_more()))) return;
  device_ = status.st_dev;
  node_ = status.st_ino;
  seen_bytes_ = status.st_size;
  if (!damage_.empty()) {
    damage_.clear();
    reader_.reset();
    forget_run();
  }
  while (most_bytes > 0) {
    const std::int64_t taken_before = reader_ ? reader_->taken_bytes() : 0;
    read_piece(path, most_bytes);
    // None, too, where the file is shorter by now, which the next call sees.
    const std::int64_t num_taken = reader_ ? reader_->taken_bytes() - taken_before : 0;
    if (num_taken <= 0 || !has_more()) return;
    most_bytes -= num_taken;
  }
}

void LiveRun::read_piece(const std::string& path, std::int64_t most_bytes) {
  try {
    if (!reader_) reader_.emplace(path);
    reader_->read(most_bytes);
  } catch (const DataError& error) {
    damage_ = error.what();
  }
  if (!reader_) return;
  try {
    take_told();
  } catch (const JsonMistake& mistake) {
    if (damage_.empty()) damage_ = path + ": " + mistake.what();
  }
  reader_->forget();
}

double LiveRun::part_read() const {
  if (!reader_ || reader_->file_bytes() <= 0) return 1;
  return std::min(1.0, static_cast<double>(reader_->taken_bytes()) / static_cast<double>(reader_->file_bytes()));
}

void LiveRun::forget_run() {
  LiveRun fresh(folder_, rank_);
  fresh.reader_ = std::move(reader_);
  fresh.device_ = device_;
  fresh.node_ = node_;
  fresh.seen_bytes_ = seen_bytes_;
  fresh.written_seconds_ = written_seconds_;
  *this = std::move(fresh);
}

void LiveRun::take_told() {
  if (reader_->num_beginnings() != num_beginnings_) {
    const std::int64_t beginnings = reader_->num_beginnings();
    forget_run();
    num_beginnings_ = beginnings;
  }
  const RunRecord& told = reader_->record();
  // A start ends the read in front of it, so one that is new here stood before all else that is.
  if (told.num_starts != num_starts_) take_start();
  for (const Json& stage : told.stages) {
    has_stages_ = true;
    capacity_ = LiveInput(stage).at("capacity").integer();
    by_category_ = categories_in(stage, "planned_by_category");
  }
  for (const RecordedStep& step : told.steps) take(step);
  for (const RecordedEvaluation& evaluation : told.evaluations) take(evaluation);
  for (const Json& adaptation : told.adaptations) {
    ++num_adaptations_;
    capacity_ = LiveInput(adaptation).at("capacity").integer();
    by_category_.reset();
  }
  num_warnings_ += static_cast<std::int64_t>(told.warnings.size());
  if (!told.warnings.empty()) last_warning_ = told.warnings.back();
  if (!told.checkpoints.empty()) last_checkpoint_ = told.checkpoints.back();
  if (told.end) take_end();
  if (told.out_of_memory) take_failure();
}

void LiveRun::take_start() {
  num_starts_ = record().num_starts;
  const LiveInput start(record().start);
  const auto told = [&](std::string_view name) {
    std::optional<LiveInput> value = start.find(name);
    return value && !value->is_null() ? value : std::nullopt;
  };
  const std::optional<LiveInput> pid = told("pid"), host = told("host"), time = told("time");
  pid_ = pid ? pid->integer() : 0;
  host_ = host ? host->text() : "";
  begin_seconds_ = time ? time->number(0) : 0;
  end_status_.clear();
  capacity_ = record().capacity;
  by_category_ = categories_in(record().start, "planned_by_category");
  is_measured_ = false;
  steps_since_start_ = 0;
  seconds_since_start_ = 0;
  recent_.clear();
  recent_seconds_ = 0;
}

void LiveRun::take(const RecordedStep& step) {
  losses_.add(step.step, step.loss);
  peak_allocated_.add(step.step, static_cast<double>(step.memory.peak_allocated));
  highest_reserved_ = std::max(highest_reserved_, step.memory.peak_reserved);
  highest_allocated_ = std::max(highest_allocated_, step.memory.peak_allocated);
  last_step_ = step;
  ++steps_since_start_;
  seconds_since_start_ += step.seconds;
  recent_.push_back(step);
  recent_seconds_ += step.seconds;
  while (recent_.size() > most_recent_steps ||
         (recent_.size() > 1 && recent_seconds_ - recent_.front().seconds > least_recent_seconds)) {
    recent_seconds_ -= recent_.front().seconds;
    recent_.pop_front();
  }
}

void LiveRun::take(const RecordedEvaluation& evaluation) {
  evaluation_losses_.add(evaluation.step, evaluation.loss);
  highest_reserved_ = std::max(highest_reserved_, evaluation.memory.peak_reserved);
  highest_allocated_ = std::max(highest_allocated_, evaluation.memory.peak_allocated);
  seconds_since_start_ += evaluation.seconds;
  last_evaluation_ = evaluation;
  if (evaluation.best) best_evaluation_ = evaluation;
}

void LiveRun::take_end() {
  end_status_ = record().status();
  if (std::optional<CategoryBytes> measured = categories_in(*record().end, "peak_by_category")) {
    by_category_ = measured;
    is_measured_ = true;
  }
}

void LiveRun::take_failure() {
  const Json& event = *record().out_of_memory;
  by_category_ = categories_in(event, "by_category");
  is_measured_ = true;
  highest_allocated_ = std::max(highest_allocated_, LiveInput(event).at("allocated").integer());
  highest_reserved_ = std::max(highest_reserved_, LiveInput(event).at("reserved").integer());
}

std::string LiveRun::stage() const {
  if (!has_stages_ || !last_step_) return "";
  return record().stage_names.at(static_cast<std::size_t>(last_step_->stage));
}

double LiveRun::begin_seconds() const { return begin_seconds_ > 0 ? begin_seconds_ : written_seconds_; }

double LiveRun::samples_per_second() const {
  const double seconds = sum_of(recent_, &RecordedStep::seconds);
  if (seconds <= 0) return 0;
  double samples = 0;
  for (const RecordedStep& step : recent_) samples += static_cast<double>(step.samples);
  return samples / seconds;
}

double LiveRun::tokens_per_second() const {
  const double seconds = sum_of(recent_, &RecordedStep::seconds);
  if (seconds <= 0) return 0;
  double tokens = 0;
  for (const RecordedStep& step : recent_) tokens += step.tokens_per_second * step.seconds;
  return tokens / seconds;
}

double LiveRun::mfu() const {
  const double seconds = sum_of(recent_, &RecordedStep::seconds);
  if (seconds <= 0) return 0;
  double weighted = 0;
  for (const RecordedStep& step : recent_) weighted += step.mfu * step.seconds;
  return weighted / seconds;
}

double LiveRun::waiting_share() const {
  const double seconds = sum_of(recent_, &RecordedStep::seconds);
  return seconds > 0 ? std::min(1.0, sum_of(recent_, &RecordedStep::data_seconds) / seconds) : 0;
}

double LiveRun::remaining_seconds() const {
  if (!has_begun() || steps_since_start_ == 0) return -1;
  const std::int64_t steps = record().total_steps - last_step_->step;
  return steps <= 0 ? 0 : seconds_since_start_ / static_cast<double>(steps_since_start_) * static_cast<double>(steps);
}

}  // namespace trainer
