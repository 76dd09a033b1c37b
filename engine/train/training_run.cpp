#include "engine/train/training_run.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "engine/plan/allocator_options.h"
#include "engine/plan/fixes.h"
#include "engine/plan/make_allocator.h"
#include "engine/plan/settle_experiment.h"
#include "engine/program/compile.h"
#include "engine/train/parameter_init.h"
#include "engine/train/run_lock.h"
#include "engine/train/run_start.h"
#include "engine/train/training_loop.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

/// The capacity for which fixes are sought after `failure`. A source that refused below its declared capacity really
/// has less: at most what would have made that segment fail.
std::int64_t real_capacity(const AllocationFailure& failure) {
  const std::int64_t asked = failure.statistics.reserved_bytes.all.current + failure.segment_bytes;
  return std::min(failure.capacity, std::max<std::int64_t>(asked - 1, 0));
}

/// One run from its options to its end event.
class TrainingRun {
 public:
  TrainingRun(const Experiment& experiment, const LoadedData& data, Device& device, const TrainingOptions& options,
              const Interruption& interruption, EventSink& events)
      : experiment_(experiment),
        data_(data),
        device_(device),
        options_(options),
        interruption_(interruption),
        events_(events),
        directory_(experiment.output),
        program_(compile(experiment, data.description, device)),
        schedule_(experiment, data.description) {}

  RunStatus run() {
    const RunStart start = choose_start(directory_, experiment_.config_path, options_);
    const std::optional<Checkpoint>& checkpoint = start.checkpoint;
    if (checkpoint) refuse_drift(*checkpoint, experiment_, data_);
    directory_.make();
    const RunLock lock(directory_.path());
    capacity_ = run_capacity(experiment_, device_);
    const std::optional<OutOfMemoryContext> failure = planned_failure();
    if (start.replaces_run && !failure) directory_.remove_run();
    directory_.prepare();
    emit_start(checkpoint, start.replaces_run && failure);
    end_.output = directory_.path();
    end_.outside_allocator = device_.outside_allocator();
    if (checkpoint) end_.steps = checkpoint->state.step;
    try {
      if (failure) tell_of_planned(*failure);
      const RunStatus status = failure ? RunStatus::out_of_memory : train(checkpoint);
      emit_end(status);
      return status;
    } catch (const std::exception& error) {
      end_.status = "failed";
      end_.error = error.what();
      finish_end();
      throw;
    }
  }

 private:
  void emit_start(const std::optional<Checkpoint>& checkpoint, bool leaves_former_run) {
    StartEvent start;
    start.experiment = &experiment_;
    start.device_kind = device_.kind();
    start.device_name = device_.name();
    start.capacity = capacity_;
    for (const Parameter& parameter : program_.parameters) {
      if (parameter.trainable) start.num_parameters += parameter.type.num_elements();
    }
    start.total_steps = schedule_.total_steps();
    start.steps_per_epoch = schedule_.steps_per_epoch();
    start.leaves_former_run = leaves_former_run;
    if (checkpoint) start.skipped_checkpoint = checkpoint->skipped;
    start.first_step = (checkpoint ? checkpoint->state.step : 0) + 1;
    start.outside_allocator = device_.outside_allocator();
    events_.on_start(start);
  }

  /// Where the plan shows that the run does not fit.
  std::optional<OutOfMemoryContext> planned_failure() const {
    if (!experiment_.memory.preflight) return std::nullopt;
    MemoryPlan plan = make_memory_plan(program_, schedule_, capacity_, allocator_options(experiment_));
    require_internal(plan.fits || plan.failure.has_value(), "a plan that does not fit tells where");
    return plan.fits ? std::nullopt : std::move(plan.failure);
  }

  void tell_of_planned(const OutOfMemoryContext& failure) {
    OutOfMemoryContext context = failure;
    context.planned = true;
    tell_of(std::move(context), capacity_);
  }

  void tell_of(OutOfMemoryContext context, std::int64_t capacity) {
    OutOfMemoryEvent event{
        std::move(context), {}, device_.outside_allocator(), device_.other_processes(), device_.total_bytes()};
    Planner planner(device_, options_.rates);
    event.fixes = find_fixes(planner, experiment_, data_.description, capacity, device_.available_bytes());
    events_.on_out_of_memory(event);
  }

  RunStatus train(const std::optional<Checkpoint>& checkpoint) {
    const std::unique_ptr<MemorySource> source = device_.make_memory_source(capacity_);
    const std::unique_ptr<Allocator> allocator = make_allocator(program_, *source, allocator_options(experiment_));
    Executor executor(program_, device_, *allocator,
                      {.replays = experiment_.device.cuda_graph, .synchronous = options_.debug_sync});
    TrainingLoop loop(experiment_, data_, schedule_, executor, directory_, options_, interruption_, events_, progress_);
    const auto take_numbers = [&] {
      progress_.fill(end_);
      end_.peak_requested = executor.run_peak().peak_requested;
      end_.peak_allocated = executor.run_peak().peak_allocated;
      end_.peak_reserved = executor.run_peak().peak_reserved;
      end_.peak_by_category = executor.peak_by_category();
      end_.passes = executor.pass_counts();
      try {
        end_.peak_used = std::max(end_.peak_used, device_.used_bytes());
      } catch (const DeviceError&) {  // a device that broke is told of by what found it
      }
      executor.release_all();
    };
    RunStatus status = RunStatus::out_of_memory;
    try {
      progress_.resume(load(checkpoint, executor));
      status = loop.run();
      take_numbers();
    } catch (const ProgramOutOfMemory& error) {
      try {
        loop.save_after_failure();
      } catch (const DataError& disk) {
        end_.error = disk.what();  // the report matters more
      }
      take_numbers();
      tell_of(program_.placement ? describe_refused_segment(program_, schedule_, error.failure()) : error.context(),
              real_capacity(error.failure()));
    } catch (const Error&) {
      take_numbers();  // a full disk, a broken device: the end event tells how far the run came
      throw;
    }
    return status;
  }

  /// Parameters and optimizer state on the device, and the state they belong to.
  TrainingState load(const std::optional<Checkpoint>& checkpoint, Executor& executor) {
    executor.begin_step(0);
    executor.run(program_.load, {});
    executor.clear(program_.loss_statistics);
    if (checkpoint) {
      restore_checkpoint(*checkpoint, executor);
      refresh_copies(executor);
      return checkpoint->state;
    }
    if (options_.initial_weights.empty()) {
      initialize_parameters(executor, experiment_.seed);
    } else {
      load_weights(options_.initial_weights, executor);
    }
    for (const OptimizerBuffers& buffers : program_.optimizer_buffers) {
      if (buffers.first >= 0) executor.clear(buffers.first);
      if (buffers.second >= 0) executor.clear(buffers.second);
    }
    if (program_.loss_scale >= 0) {
      LossScaleState scale{};
      scale[loss_scale_factor] = experiment_.train.loss_scale.initial;
      executor.write(program_.loss_scale, scale.data());
    }
    refresh_copies(executor);
    device_.synchronize();
    TrainingState state;
    state.num_samples = data_.train->size();
    return state;
  }

  /// The 16-bit copies follow parameters that were written from outside.
  void refresh_copies(Executor& executor) const {
    if (!program_.refresh.instructions.empty()) executor.run(program_.refresh, {});
  }

  void emit_end(RunStatus status) {
    switch (status) {
      case RunStatus::done:
        end_.status = "done";
        break;
      case RunStatus::out_of_memory:
        end_.status = "oom";
        break;
      case RunStatus::diverged:
        end_.status = "diverged";
        break;
      case RunStatus::interrupted:
        end_.status = "interrupted";
        break;
    }
    finish_end();
  }

  void finish_end() {
    end_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    events_.on_end(end_);
  }

  const Experiment& experiment_;
  const LoadedData& data_;
  Device& device_;
  const TrainingOptions& options_;
  const Interruption& interruption_;
  EventSink& events_;
  const RunDirectory directory_;
  const Program program_;
  const RunSchedule schedule_;
  std::int64_t capacity_ = 0;
  RunProgress progress_;
  EndEvent end_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

std::int64_t run_capacity(const Experiment& experiment, const Device& device) {
  const std::int64_t available = device.available_bytes();
  return experiment.memory.limit ? std::min(*experiment.memory.limit, available) : available;
}

RunStatus run_training(const Experiment& experiment, const LoadedData& data, Device& device,
                       const TrainingOptions& options, Interruption& interruption, EventSink& events) {
  const Experiment settled = settle_experiment(experiment, data.description, device, run_capacity(experiment, device));
  return TrainingRun(settled, data, device, options, interruption, events).run();
}

}  // namespace trainer
