#include "engine/train/run_totals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/errors.h"
#include "engine/graph/preprocessing.h"
#include "engine/memory/machine_memory.h"

namespace trainer {
namespace {

std::string name_of_status(RunStatus status) {
  switch (status) {
    case RunStatus::done:
      return "done";
    case RunStatus::out_of_memory:
      return "oom";
    case RunStatus::diverged:
      return "diverged";
    case RunStatus::interrupted:
      return "interrupted";
  }
  return "";
}

}  // namespace

RunTotals::RunTotals(const RunDirectory& directory, const ReplacedRun& replaced, Device& device, RunProgress& progress,
                     EventSink& events)
    : directory_(directory), replaced_(replaced), device_(device), progress_(progress), events_(events) {
  end_.output = directory.path();
}

void RunTotals::warn(const std::string& message) {
  events_.take(WarningEvent{.step = progress_.state.step, .message = message});
  ++progress_.num_warnings;
}

void RunTotals::tell_notes() {
  const std::size_t num_told = std::exchange(end_.device_notes, device_.notes()).size();
  for (std::size_t i = num_told; i < end_.device_notes.size(); ++i) warn(end_.device_notes[i]);
}

void RunTotals::try_to_tell_notes() {
  try {
    tell_notes();
  } catch (const DataError&) {  // a full disk takes no events
  }
}

void RunTotals::tell_of_data(const RunningStage& stage) {
  std::vector<std::string> reasons = stage.data.train->skipped_samples();
  if (stage.data.validation) {
    for (std::string& reason : stage.data.validation->skipped_samples()) reasons.push_back(std::move(reason));
  }
  if (!reasons.empty()) {
    directory_.write_skipped_samples(reasons);
    warn(fmt::format("{} could not be read, and others stood in for {}; see {}",
                     reasons.size() == 1 ? "1 sample" : fmt::format("{} samples", reasons.size()),
                     reasons.size() == 1 ? "it" : "them", directory_.skipped_samples_path()));
  }
  for (const auto& dataset : {stage.data.train, stage.data.validation})
    if (const std::string why = dataset ? dataset->cache_failure() : ""; !why.empty())
      warn(fmt::format("images were not kept any more: {}", why));
}

void RunTotals::begin_stage(const RunningStage& stage) {
  stage_ = {.name = progress_.state.stage.name, .planned_peak_reserved = stage.planned_peak_reserved};
  stage_first_step_ = progress_.state.step;
  stage_begin_ = Clock::now();
}

void RunTotals::end_stage() {
  stage_.steps = progress_.state.step - stage_first_step_;
  stage_.stopped_early = progress_.stopped_early;
  stage_.seconds = std::chrono::duration<double>(Clock::now() - stage_begin_).count();
  if (progress_.last_evaluation) {
    stage_.loss = progress_.last_evaluation->loss;
    stage_.accuracy = progress_.last_evaluation->accuracy;
  }
  end_.stages.push_back(stage_);
}

void RunTotals::add(const Executor& executor) {
  progress_.fill(end_);
  const StepMemory& peak = executor.run_peak();
  if (peak.peak_allocated >= end_.peak_allocated) end_.peak_by_category = executor.peak_by_category();
  end_.peak_requested = std::max(end_.peak_requested, peak.peak_requested);
  end_.peak_allocated = std::max(end_.peak_allocated, peak.peak_allocated);
  end_.peak_reserved = std::max(end_.peak_reserved, peak.peak_reserved);
  const PassCounts before = end_.passes;
  end_.passes = executor.pass_counts();
  end_.passes.total += before.total;
  end_.passes.replayed += before.replayed;
  end_.passes.moved += before.moved;
  try {
    end_.peak_used = std::max(end_.peak_used, device_.ask_used_bytes());
  } catch (const DeviceError&) {  // a device that broke is told of by what found it
  }
  stage_.peak_allocated = std::max(stage_.peak_allocated, peak.peak_allocated);
  stage_.peak_reserved = std::max(stage_.peak_reserved, peak.peak_reserved);
  stage_.consumed = step_memory(executor.allocator().statistics()).allocated;
}

void RunTotals::tell_end(RunStatus status, const RunningStage& stage) { finish(name_of_status(status), stage); }

void RunTotals::tell_end(const std::exception& error, const RunningStage& stage) {
  end_.error = error.what();
  finish(dynamic_cast<const HostOutOfMemory*>(&error) != nullptr ? "oom" : "failed", stage);
}

void RunTotals::finish(std::string status, const RunningStage& stage) {
  end_.status = std::move(status);
  end_.steps = progress_.state.step;
  if (replaced_.is_aside()) end_.failed_events = directory_.path() + "/" + failed_events_file;
  end_.process = process_memory_of(stage, device_);
  end_.target_unit = target_unit(stage.data.preprocessing);
  end_.planned_touched = stage.planned_touched;
  end_.peak_resident = peak_resident_bytes();
  end_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  events_.take(end_);
}

}  // namespace trainer
