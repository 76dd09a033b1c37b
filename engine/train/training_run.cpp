#include "engine/train/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <optional>
#include <system_error>

#include "engine/config/load_experiment.h"
#include "engine/config/override_text.h"
#include "engine/memory/machine_memory.h"
#include "engine/plan/capacity.h"
#include "engine/plan/model_flops.h"
#include "engine/plan/process_memory.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/fixes.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/run_checks.h"
#include "engine/train/adaptation.h"
#include "engine/train/data_checks.h"
#include "engine/train/files/frozen_weights.h"
#include "engine/train/files/replaced_run.h"
#include "engine/train/files/run_lock.h"
#include "engine/train/files/weights_loading.h"
#include "engine/train/fresh_state.h"
#include "engine/train/heap_reserve.h"
#include "engine/train/resumed_state.h"
#include "engine/train/run_start.h"
#include "engine/train/token_count.h"
#include "engine/train/training_loop.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

/// One run from its options to its end event.
class TrainingRun {
 public:
  /// `asked` is the experiment before anything it leaves open was settled.
  TrainingRun(const RunStart& start, const WeightFiles* weights, const RunSurroundings& surroundings,
              RunExperiment experiment, CompiledExperiment compiled, const Experiment& asked, std::int64_t capacity,
              const LoadedData& data, Device& device, const TrainingOptions& options, const Interruption& interruption,
              EventSink& events)
      : start_(start),
        weights_(weights),
        given_(std::move(experiment.given)),
        asked_batch_size_(asked.train.batch_size),
        asked_allocator_(asked.memory.allocator),
        adapted_(std::move(experiment.adapted)),
        data_(data),
        device_(device),
        options_(options),
        interruption_(interruption),
        events_(events),
        directory_(given_.output),
        capacity_(capacity),
        compiled_(std::make_unique<CompiledExperiment>(std::move(compiled))),
        frozen_(given_, compiled_->program) {
    if (weights_ != nullptr) {
      weights_match_ = match_weights(given_.weights, *weights_, compiled_->program);
      require_match(*weights_match_);
    }
    frozen_.require_matches();
    const std::vector<FrozenChecksum> frozen_checksums = frozen_.checksums();
    if (start.checkpoint) {
      require_same_networks(start.checkpoint->path, start.checkpoint->state.frozen, frozen_checksums);
      check_resumed_state(*start.checkpoint, compiled_->experiment, compiled_->schedule);
      progress_.resume(start.checkpoint->state);
      warnings_ = resumption_warnings(progress_.state, surroundings);
    }
    for (std::string& warning : run_warnings(compiled_->experiment, compiled_->schedule))
      warnings_.push_back(std::move(warning));
    warnings_.insert(warnings_.end(), data.remarks.begin(), data.remarks.end());
    if (const bool evaluates = compiled_->schedule.evaluates_initially();
        progress_.state.step == 0 && !(start.checkpoint && evaluates))
      progress_.state.evaluated = !evaluates;
    progress_.state.train_crc32 = surroundings.train_crc32;
    progress_.state.validation_crc32 = surroundings.validation_crc32;
    progress_.state.device = surroundings.device;
    progress_.state.frozen = frozen_checksums;
    progress_.config_yaml = resolved_yaml(given_);
    progress_.state.num_samples = data.train->size();
    progress_.state.preprocessing = data.preprocessing;
    set_token_rates();
    progress_.state.adapted = adapted_;
    progress_.state.given_config = adapted_.empty() ? "" : resolved_json(given_);
  }

  RunStatus run() {
    const std::optional<OutOfMemoryContext> failure = planned_failure();
    const std::optional<Change> change = failure ? find_change(capacity_) : std::nullopt;
    const bool can_train = !failure || change;
    if (!start_.replaces_run || !can_train) return run_in_folder(failure, change);
    replaced_.set_aside();
    try {
      const RunStatus status = run_in_folder(failure, change);
      if (replaced_.is_aside()) replaced_.bring_back();
      return status;
    } catch (const std::exception&) {
      try {
        if (replaced_.is_aside()) replaced_.bring_back();
      } catch (const DataError&) {  // what failed first is told; the next start brings it back
      }
      throw;
    }
  }

 private:
  void set_token_rates() {
    TokenRates& rates = progress_.token_rates;
    rates.tokens_per_sample = tokens_of_sample(given_.data, data_.description);
    if (rates.tokens_per_sample == 0) return;
    rates.flops_per_sample =
        model_flops_of_sample(compiled_->experiment, data_.description, compiled_->schedule.batch_size());
    rates.peak_flops_per_second = options_.peak_flops_per_second;
  }

  /// From the start event to the end event. `failure` is what the plan shows, `change` what it can do without.
  RunStatus run_in_folder(const std::optional<OutOfMemoryContext>& failure, const std::optional<Change>& change) {
    const bool can_train = !failure || change;
    if (start_.continues_own && can_train) settle_checkpoints();
    emit_start(can_train);
    for (const std::string& warning : warnings_) warn(warning);
    end_.output = directory_.path();
    end_.outside_allocator = device_.outside_allocator();
    end_.steps = progress_.state.step;
    try {
      if (change) adapt(*failure, *change);
      if (!can_train) tell_of(*failure, capacity_);
      const RunStatus status = can_train ? train() : RunStatus::out_of_memory;
      emit_end(status);
      return status;
    } catch (const std::exception& error) {
      end_.status = dynamic_cast<const HostOutOfMemory*>(&error) != nullptr ? "oom" : "failed";
      end_.error = error.what();
      finish_end();
      throw;
    }
  }

  /// What came of training under one capacity.
  struct Outcome {
    RunStatus status = RunStatus::out_of_memory;
    std::optional<Change> change;  ///< where memory ran out and this fits: the run goes on with it
    OutOfMemoryContext context;
  };

  /// Links to the checkpoint that the run goes on from, which a kill may have left without, and no later ones. Before
  /// the events of their steps go: what is resumed after a kill in between has all events of its steps.
  void settle_checkpoints() const {
    const TrainingState& state = progress_.state;
    const std::vector<std::int64_t> steps = directory_.checkpoint_steps();
    // One that was moved to another place in the folder is no reason to remove the others before the next is saved.
    if (!std::binary_search(steps.begin(), steps.end(), state.step)) return;
    directory_.settle(state.step, state.best_value ? state.best_step : -1, given_.checkpoint.keep);
  }

  void emit_start(bool can_train) {
    StartEvent start;
    start.experiment = &given_;
    start.trainer_version = options_.trainer_version;
    start.adapted = adapted_;
    start.device_kind = device_.kind();
    start.device_name = device_.name();
    start.capacity = capacity_;
    start.allocator = compiled_->experiment.memory.allocator;
    // A run that is resumed begins with segments again.
    if (progress_.state.step == 0) start.first_placed_step = planned_first_placed_step_;
    start.num_parameters = num_trainable_parameters(compiled_->program);
    start.total_steps = compiled_->schedule.total_steps();
    start.steps_per_epoch = compiled_->schedule.steps_per_epoch();
    start.batch_size = compiled_->schedule.batch_size();
    start.asked_batch_size = asked_batch_size_.number();
    start.leaves_former_run = start_.replaces_run && !can_train;
    if (start_.checkpoint) {
      start.skipped_checkpoint = start_.checkpoint->skipped;
      start.resumption = {progress_.state.step, progress_.state.evaluated, can_train};
    }
    start.first_step = progress_.state.step + 1;
    start.preprocessing = data_.preprocessing;
    start.weights = weights_match_;
    start.frozen = frozen_.matches();
    start.outside_allocator = device_.outside_allocator();
    start.process = process_of_program();
    places_are_told_ = start.first_placed_step >= 0;
    start.planned_touched = planned_touched_;
    start.tokens_per_sample = progress_.token_rates.tokens_per_sample;
    start.flops_per_sample = progress_.token_rates.flops_per_sample;
    start.peak_flops_per_second = progress_.token_rates.peak_flops_per_second;
    events_.take(std::move(start));
  }

  ProcessMemory process_of_program() const {
    return process_memory(compiled_->experiment, compiled_->program, data_.description, device_);
  }

  /// Where the plan shows that the run does not fit.
  std::optional<OutOfMemoryContext> planned_failure() {
    if (!compiled_->experiment.memory.preflight) return std::nullopt;
    MemoryPlan plan = plan_memory(*compiled_, capacity_);
    require_internal(plan.fits || plan.failure.has_value(), "a plan that does not fit tells where");
    if (plan.fits) {
      planned_capacity_ = capacity_;
      planned_touched_ = plan.peak_touched;
      planned_first_placed_step_ = plan.first_placed_step;
      return std::nullopt;
    }
    plan.failure->planned = true;
    return std::move(plan.failure);
  }

  /// What the run can go on with where it has `capacity`, see Note [Adapting a run].
  std::optional<Change> find_change(std::int64_t capacity) {
    if (given_.memory.on_oom != OnOutOfMemory::adapt || capacity >= planned_capacity_) return std::nullopt;
    Planner planner(device_, options_.rates);
    return find_adaptation(planner, compiled_->experiment, data_.description, capacity);
  }

  /// Puts what is compiled of the change in the place of what ran until now.
  void adapt(const OutOfMemoryContext& context, const Change& change) {
    TrainingState& state = progress_.state;
    const std::int64_t step = state.evaluated ? state.step + 1 : state.step;
    events_.take(AdaptEvent{.step = step, .context = context, .capacity = capacity_, .change = change});
    end_.adaptations.push_back({step, change.capacity, change.set, change.numbers});
    const std::int64_t num_steps = compiled_->schedule.total_steps();
    compiled_ = std::make_unique<CompiledExperiment>(
        compile_experiment(change.experiment, data_.description, device_, change.capacity));
    require_internal(compiled_->schedule.total_steps() == num_steps, "an adapted run has the steps it had");
    capacity_ = planned_capacity_ = change.capacity;
    places_are_told_ = true;
    planned_touched_ = 0;
    if (change.set.empty()) return;
    if (state.adapted.empty()) state.given_config = resolved_json(given_);
    state.adapted = joined_overrides(state.adapted, change.set);
    state.pass = passes_until(compiled_->schedule, state.step);
  }

  void tell_of(OutOfMemoryContext context, std::int64_t capacity) {
    OutOfMemoryEvent event{.context = std::move(context),
                           .fixes = {},
                           .allocator = compiled_->experiment.memory.allocator,
                           .allocator_was_chosen = asked_allocator_ == AllocatorKind::automatic,
                           .planned_does_not_fit_either = false,
                           .outside_allocator = device_.outside_allocator(),
                           .other_processes = device_.other_processes(),
                           .device_total = device_.total_bytes()};
    event.planned_does_not_fit_either =
        event.allocator_was_chosen && event.allocator == AllocatorKind::caching && capacity == capacity_;
    // Under less memory than it was chosen for, the allocator is one that another may be better than.
    const Experiment failed =
        with_allocator(given_, capacity == capacity_ ? asked_allocator_ : compiled_->experiment.memory.allocator);
    Planner planner(device_, options_.rates);
    const std::int64_t available = memory_for_allocator(device_.available_bytes(), given_, data_.description, device_,
                                                        /*dataset_is_loaded=*/true);
    Advice advice = find_advice(planner, failed, data_.description, capacity, available);
    std::int64_t held_by_others = 0;
    for (const DeviceProcess& process : event.other_processes) held_by_others += process.num_bytes;
    event.diagnosis =
        diagnose(device_, failed, data_.description, capacity, held_by_others, std::move(advice.not_enough));
    event.fixes = std::move(advice.fixes);
    if (asked_batch_size_.is_automatic()) name_batch_size(event.fixes);
    events_.take(std::move(event));
  }

  /// The fixes were planned with the batch that `auto` stood for; pasted beside `auto` they would meet another.
  void name_batch_size(std::vector<Change>& fixes) const {
    for (Change& fix : fixes) {
      const bool names_it = std::any_of(fix.set.begin(), fix.set.end(),
                                        [](const std::string& word) { return word.starts_with("train.batch_size="); });
      if (!names_it) fix.set.insert(fix.set.begin(), override_of("train.batch_size", given_));
    }
  }

  RunStatus train() {
    try {
      for (;;) {
        const Outcome outcome = train_under_capacity();
        if (!outcome.change) return outcome.status;
        adapt(outcome.context, *outcome.change);
      }
    } catch (const HostOutOfMemory&) {
      save_without_memory(nullptr);  // what is held on the host, where something is
      throw;
    } catch (const std::bad_alloc&) {
      save_without_memory(nullptr);
      throw HostOutOfMemory("this run", 0);
    }
  }

  Outcome train_under_capacity() {
    const Program& program = compiled_->program;
    Session session(*compiled_, data_, device_, capacity_, options_.debug_sync);
    Executor& executor = session.executor();
    if (!saver_) saver_.emplace(program, directory_, options_.trainer_version);
    TrainingLoop loop(session, options_, interruption_, events_, progress_, &*saver_);
    Outcome outcome;
    std::optional<std::int64_t> refused_capacity;
    try {
      bool is_loaded = false;
      try {
        load(executor);
        is_loaded = true;
        outcome.status = loop.run();
      } catch (const ProgramOutOfMemory& error) {
        refused_capacity = real_capacity(error.failure(), executor.refused_places(), device_);
        outcome.change = prepare_change(*refused_capacity, is_loaded ? &executor : nullptr);
        if (!outcome.change) save_after_failure(is_loaded ? &loop : nullptr);
        outcome.context = program.placement ? describe_refused_segment(program, compiled_->schedule, error.failure())
                                            : error.context();
      } catch (const HostOutOfMemory&) {
        save_without_memory(is_loaded ? &loop : nullptr);
        throw;
      } catch (const std::bad_alloc&) {
        save_without_memory(is_loaded ? &loop : nullptr);
        throw HostOutOfMemory("this run", 0);
      } catch (const DataError&) {  // a disk that takes no more
        save_trained(is_loaded ? &loop : nullptr);
        throw;
      } catch (const std::system_error&) {  // such as no more threads
        save_trained(is_loaded ? &loop : nullptr);
        throw;
      }
    } catch (const std::exception&) {
      try_to_tell_notes();
      take_numbers(executor);  // a full disk, a broken device: the end event tells how far the run came
      throw;
    }
    tell_notes();
    tell_skipped_samples();
    for (const auto& dataset : {data_.train, data_.validation})
      if (const std::string why = dataset ? dataset->cache_failure() : ""; !why.empty())
        warn(fmt::format("images were not kept any more: {}", why));
    if (const std::int64_t step = executor.first_placed_step(); step >= 0 && !places_are_told_)
      warn(
          fmt::format("at step {} segments of the caching allocator no longer held what a step allocates, and from "
                      "there on it lay at planned places in one segment",
                      step));
    take_numbers(executor);
    if (refused_capacity && !outcome.change) tell_of(outcome.context, *refused_capacity);
    return outcome;
  }

  /// What the run goes on with, the tensors of `loaded`, where there is one, copied to the host. Nothing where the host
  /// has no memory for that: then all of them are on the device still.
  std::optional<Change> prepare_change(std::int64_t capacity, Executor* loaded) {
    try {
      std::optional<Change> change = find_change(capacity);
      if (change && loaded != nullptr) held_.emplace(*loaded);
      return change;
    } catch (const std::bad_alloc&) {
      return std::nullopt;  // the run ends as one that nothing fits: it is saved, and the report tells what would
    }
  }

  /// Where the host has no memory left.
  void save_without_memory(TrainingLoop* loop) {
    heap_reserve_.give_back();
    save_trained(loop);
  }

  /// Saves the steps that were begun as well, where they can be finished; tries once more where a disk has refused.
  void save_trained(TrainingLoop* loop) {
    if (loop == nullptr) return save_after_failure(nullptr);
    if (loop->is_within_step()) return;  // a step that was begun cannot be taken back
    try {
      loop->finish_queued_steps();
    } catch (const HostOutOfMemory&) {
      return;
    } catch (const std::bad_alloc&) {
      return;
    } catch (const DataError&) {
      return;
    }
    save_after_failure(loop);
  }

  /// Saves what was trained since the last checkpoint, from the device or from where it was held.
  void save_after_failure(TrainingLoop* loop) {
    try {
      if (loop != nullptr) return loop->save_after_failure();
      if (!held_ || progress_.state.step == 0 || progress_.is_saved()) return;
      saver_->save(progress_, compiled_->experiment, held_->saved_tensors(), events_);
    } catch (const DataError& disk) {
      end_.error = disk.what();  // the report matters more
    }
  }

  /// Those of the device that were not told yet.
  void tell_notes() {
    const std::size_t num_told = std::exchange(end_.device_notes, device_.notes()).size();
    for (std::size_t i = num_told; i < end_.device_notes.size(); ++i) warn(end_.device_notes[i]);
  }

  /// In the end, what no reading of the data has given.
  void tell_skipped_samples() {
    std::vector<std::string> reasons = data_.train->skipped_samples();
    if (data_.validation) {
      for (std::string& reason : data_.validation->skipped_samples()) reasons.push_back(std::move(reason));
    }
    if (reasons.empty()) return;
    directory_.write_skipped_samples(reasons);
    warn(fmt::format("{} could not be read, and others stood in for {}; see {}",
                     reasons.size() == 1 ? "1 sample" : fmt::format("{} samples", reasons.size()),
                     reasons.size() == 1 ? "it" : "them", directory_.skipped_samples_path()));
  }

  void warn(const std::string& message) {
    events_.take(WarningEvent{.step = progress_.state.step, .message = message});
    ++progress_.num_warnings;
  }

  /// In a run that fails for another reason, which must not be hidden.
  void try_to_tell_notes() {
    try {
      tell_notes();
    } catch (const DataError&) {  // a full disk takes no events
    }
  }

  void take_numbers(Executor& executor) {
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
    executor.release_all();
  }

  /// Parameters and optimizer state on the device: those that were held, the checkpoint's, or fresh ones.
  void load(Executor& executor) {
    const Program& program = executor.program();
    if (held_ || start_.checkpoint) {
      executor.begin_step(0);
      executor.run(program.load, {});
      executor.clear(program.loss_statistics);
      if (held_)
        held_->restore(executor);
      else
        restore_checkpoint(*start_.checkpoint, executor);
    } else {
      load_fresh_state(executor, given_);
      if (weights_ != nullptr) load_weights(*weights_match_, *weights_, executor, saver_->memory());
    }
    frozen_.load(executor, saver_->memory());
    // The 16-bit copies follow parameters that were written from outside.
    if (!program.refresh.instructions.empty()) executor.run(program.refresh, {});
    device_.synchronize();
    held_.reset();  // until here, what fails is saved from there
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
    if (replaced_.is_aside()) end_.failed_events = directory_.path() + "/" + failed_events_file;
    end_.process = process_of_program();
    end_.target_unit = target_unit(data_.preprocessing);
    end_.planned_touched = planned_touched_;
    end_.peak_resident = peak_resident_bytes();
    end_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    events_.take(end_);
  }

  const RunStart& start_;
  const WeightFiles* const weights_;  ///< to start from, or none
  std::optional<WeightsMatch> weights_match_;
  const Experiment given_;
  const BatchSize asked_batch_size_;
  const AllocatorKind asked_allocator_;
  const std::vector<std::string> adapted_;  ///< of the run that is resumed
  const LoadedData& data_;
  Device& device_;
  const TrainingOptions& options_;
  const Interruption& interruption_;
  EventSink& events_;
  const RunDirectory directory_;
  const ReplacedRun replaced_{directory_.path()};
  std::int64_t capacity_;
  /// The least for which a plan showed that the run fits.
  std::int64_t planned_capacity_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t planned_first_placed_step_ = -1;
  bool places_are_told_ = false;      ///< that layouts are placed, or that the run goes on in another way
  std::int64_t planned_touched_ = 0;  ///< by what is compiled; 0: not planned
  std::unique_ptr<const CompiledExperiment> compiled_;
  const FrozenWeights frozen_;
  std::optional<ProgressSaver> saver_;  ///< once there is something to train
  HeapReserve heap_reserve_;
  std::optional<HeldTensors> held_;  ///< while no executor holds them
  RunProgress progress_;
  std::vector<std::string> warnings_;  ///< to tell behind the start
  EndEvent end_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

RunStatus run_training(const Experiment& experiment, const LoadedData& data, Device& device,
                       const TrainingOptions& options, Interruption& interruption, EventSink& events) {
  const RunDirectory directory(experiment.output);
  const RunLock lock(directory.path());
  directory.prepare();
  const RunStart start = choose_start(directory, experiment.config_path, options);
  // Opened before anything moves: it may be one of the run that is replaced.
  std::optional<WeightFiles> weights;
  if (!experiment.weights.file.empty() && !start.checkpoint) weights.emplace(experiment.weights.file);
  check_data(experiment, data);
  const RunSurroundings surroundings = surroundings_of(data, device);
  RunExperiment chosen = start.checkpoint ? resumed_experiment(*start.checkpoint, experiment, data, surroundings)
                                          : RunExperiment{experiment, experiment, {}};
  const std::int64_t capacity = run_capacity(experiment, data.description, device, /*dataset_is_loaded=*/true);
  CompiledExperiment compiled = compile_experiment(chosen.experiment, data.description, device, capacity);
  if (chosen.adapted.empty()) chosen.given = compiled.experiment;
  if (!start.replaces_run) directory.remove_out_of_memory();
  return TrainingRun(start, weights ? &*weights : nullptr, surroundings, std::move(chosen), std::move(compiled),
                     experiment, capacity, data, device, options, interruption, events)
      .run();
}

}  // namespace trainer
