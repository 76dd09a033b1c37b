#include "engine/train/training_run.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <new>
#include <optional>
#include <system_error>

#include "engine/config/load_experiment.h"
#include "engine/memory/cached_segments.h"
#include "engine/plan/model_flops.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/program/handed_parameters.h"
#include "engine/train/adaptation.h"
#include "engine/train/agreement.h"
#include "engine/train/failure_event.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/frozen_weights.h"
#include "engine/train/files/intact_weights.h"
#include "engine/train/files/replaced_run.h"
#include "engine/train/files/run_lock.h"
#include "engine/train/files/shared_folder.h"
#include "engine/train/files/weights_loading.h"
#include "engine/train/fresh_state.h"
#include "engine/train/heap_reserve.h"
#include "engine/train/parameter_init.h"
#include "engine/train/planned_stages.h"
#include "engine/train/resumed_state.h"
#include "engine/train/run_stages.h"
#include "engine/train/run_start.h"
#include "engine/train/run_totals.h"
#include "engine/train/running_stage.h"
#include "engine/train/session.h"
#include "engine/train/telling_process.h"
#include "engine/train/token_count.h"
#include "engine/train/training_loop.h"

namespace trainer {
namespace {

/// One run from its options to its end event.
class TrainingRun {
 public:
  TrainingRun(RunStages& stages, const RunStart& start, const WeightFiles* weights, Device& device,
              const TrainingOptions& options, const Interruption& interruption, EventSink& events)
      : stages_(stages),
        start_(start),
        weights_(weights),
        device_(device),
        options_(options),
        interruption_(interruption),
        events_(events),
        directory_(folder_of_rank(stages.whole().output, stages.whole().parallel.rank)) {
    if (start.checkpoint) {
      progress_.resume(start.checkpoint->state);
      if (!start.continues_own) progress_.saved_step = -1;  // the folder is to hold what the run ends with
      check_stage_of(*start.checkpoint, stages_, options_.resumption);
    }
    StageBegin& begin = progress_.state.stage;
    if (!start.checkpoint) begin.index = stages_.first();
    begin.name = stages_.name_of(begin.index);
    stage_ = prepare_stage(stages_, begin.index, start.checkpoint ? &*start.checkpoint : nullptr, begin.updates_before,
                           device_, nullptr, options_.ranks);
    if (weights_ != nullptr) {
      weights_match_ = match_weights(stage_->given.weights, *weights_, stage_->compiled->program);
      require_match(*weights_match_);
    }
    const std::vector<FrozenChecksum> frozen_checksums = stage_->frozen->checksums();
    if (start.checkpoint) {
      require_same_networks(start.checkpoint->path, start.checkpoint->state.frozen, frozen_checksums);
      check_resumed_state(*start.checkpoint, stage_->compiled->experiment, stage_->compiled->schedule);
      warnings_ = resumption_warnings(*start.checkpoint, stage_->compiled->experiment, stage_->surroundings);
    }
    for (std::string& warning : warnings_of(*stage_)) warnings_.push_back(std::move(warning));
    warn_of_missing_weights();
    warnings_.insert(warnings_.end(), stage_->data.remarks.begin(), stage_->data.remarks.end());
    if (const bool evaluates = stage_->compiled->schedule.evaluates_initially();
        progress_.state.step == 0 && !(start.checkpoint && evaluates))
      progress_.state.evaluated = !evaluates;
    progress_.config_yaml = resolved_yaml(stages_.has_stages() ? stages_.whole() : stage_->given);
    progress_.state.frozen = frozen_checksums;
    describe_in_progress();
  }

  RunStatus run() {
    std::optional<OutOfMemoryContext> failure = planned_failure(*stage_);
    const std::optional<Change> change = failure ? find_change(stage_->capacity) : std::nullopt;
    if (!failure || change)  // what is behind its last step already only hands its parameters on
      later_ = plan_later_stages(stages_, progress_.state.stage.index, *stage_,
                                 is_behind_stage() ? nullptr : stage_->planned_left, device_, options_.rates);
    if (later_.failed) failure = later_.failed->context;
    const bool can_train = !later_.failed && (!failure || change);
    first_without_memory_ = first_rank(options_.ranks, !can_train);
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
  /// Of several ranks one writes what all of them have.
  bool leads() const { return stages_.whole().parallel.rank == 0; }

  /// Frozen layers, or stages that are left out, say that something was trained before.
  void warn_of_missing_weights() {
    if (start_.checkpoint || weights_ != nullptr) return;
    const Program& program = stage_->compiled->program;
    const std::int64_t num_frozen = num_parameters(program) - num_trained_parameters(program);
    if (num_frozen > 0)
      warnings_.push_back(
          fmt::format("{} of {} parameters are frozen as the seed drew them; --weights PATH begins with trained ones",
                      num_frozen, num_parameters(program)));
    else if (stages_.first() > 0)
      warnings_.push_back(
          "stages are left out, and their parameters are as the seed drew them; --weights PATH begins with trained "
          "ones");
  }

  void set_token_rates() {
    TokenRates& rates = progress_.token_rates;
    rates.tokens_per_sample = tokens_of_sample(stage_->given.data, stage_->data.description);
    if (rates.tokens_per_sample == 0) return;
    rates.flops_per_sample = model_flops_of_sample(stage_->compiled->experiment, stage_->data.description,
                                                   stage_->compiled->schedule.batch_size());
    rates.peak_flops_per_second = options_.peak_flops_per_second;
  }

  /// From the start event to the end event. `failure` is what the plan shows, `change` what it can do without.
  RunStatus run_in_folder(const std::optional<OutOfMemoryContext>& failure, const std::optional<Change>& change) {
    const bool can_train = !later_.failed && (!failure || change);
    if (leads() && start_.continues_own && can_train) settle_checkpoints();
    emit_start(can_train);
    totals_.begin();
    for (const std::string& warning : warnings_) totals_.warn(warning);
    try {
      if (!can_train) tell_of(later_.failed ? *later_.failed->stage : *stage_, *failure);
      if (can_train && first_without_memory_)
        throw RankError(
            ExitCode::out_of_memory,
            fmt::format("rank {} does not have the memory that it needs; nothing was trained", *first_without_memory_));
      if (can_train && change) adapt(*failure, *change);
      const RunStatus status = can_train ? train_stages() : RunStatus::out_of_memory;
      totals_.tell_end(status, *stage_);
      return status;
    } catch (const std::exception& error) {
      totals_.tell_end(error, *stage_);
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
    directory_.settle(state.step, state.best_value ? state.best_step : -1, stage_->given.checkpoint.keep);
  }

  void emit_start(bool can_train) {
    StartEvent start;
    start.experiment = stages_.has_stages() ? &stages_.whole() : &stage_->given;
    start.trainer_version = options_.trainer_version;
    start.adapted = stage_->adapted;
    start.device_kind = device_.kind();
    start.device_name = device_.name();
    start.capacity = stage_->capacity;
    start.allocator = stage_->compiled->experiment.memory.allocator;
    // A run that is resumed begins with segments again.
    if (progress_.state.step == 0) start.first_placed_step = stage_->planned_first_placed_step;
    start.num_parameters = num_parameters(stage_->compiled->program);
    start.num_trained = num_trained_parameters(stage_->compiled->program);
    start.total_steps = progress_.state.stage.step + stage_->compiled->schedule.total_steps() + later_.num_steps;
    start.steps_per_epoch = stage_->compiled->schedule.steps_per_epoch();
    start.batch_size = stage_->compiled->schedule.batch_size();
    start.asked_batch_size = stage_->asked.train.batch_size.number();
    start.leaves_former_run = start_.replaces_run && !can_train;
    if (start_.checkpoint) {
      start.skipped_checkpoint = start_.checkpoint->skipped;
      start.resumption = {progress_.state.step, progress_.state.evaluated, can_train};
    }
    start.first_step = progress_.state.step + 1;
    start.preprocessing = stage_->data.preprocessing;
    start.weights = weights_match_;
    start.frozen = stage_->frozen->matches();
    start.outside_allocator = device_.outside_allocator();
    start.carrier = options_.carrier;
    start.process = process_memory_of(*stage_, device_);
    stage_->places_are_told = start.first_placed_step >= 0;
    start.planned_touched = stage_->planned_touched;
    start.planned_by_category = stage_->planned_by_category;
    start.teller = this_process();
    start.planned_peak_reserved = stage_->planned_peak_reserved;
    start.tokens_per_sample = progress_.token_rates.tokens_per_sample;
    start.flops_per_sample = progress_.token_rates.flops_per_sample;
    start.peak_flops_per_second = progress_.token_rates.peak_flops_per_second;
    events_.take(std::move(start));
  }

  std::optional<Change> find_change(std::int64_t capacity) {
    return trainer::find_change(*stage_, capacity, device_, options_.rates);
  }

  /// Puts what is compiled of the change in the place of what ran until now.
  void adapt(const OutOfMemoryContext& context, const Change& change) {
    TrainingState& state = progress_.state;
    purge_kept();
    const std::int64_t step = state.evaluated ? state.step + 1 : state.step;
    events_.take(AdaptEvent{.step = step, .context = context, .capacity = stage_->capacity, .change = change});
    totals_.add({step, change.capacity, change.set, change.numbers});
    const std::int64_t num_steps = stage_->compiled->schedule.total_steps();
    stage_->compiled = std::make_unique<CompiledExperiment>(
        compile_experiment(change.experiment, stage_->data.description, device_, change.capacity));
    require_internal(stage_->compiled->schedule.total_steps() == num_steps, "an adapted run has the steps it had");
    stage_->capacity = stage_->planned_capacity = change.capacity;
    stage_->places_are_told = true;
    stage_->planned_touched = 0;
    stage_->planned_by_category.reset();
    if (change.set.empty()) return;
    if (state.adapted.empty()) state.given_config = resolved_json(stage_->given);
    state.adapted = joined_overrides(state.adapted, change.set);
    state.pass = state.stage.pass + passes_until(stage_->compiled->schedule, state.step - state.stage.step);
  }

  void tell_of(const RunningStage& stage, OutOfMemoryContext context) {
    tell_of(stage, std::move(context), stage.capacity);
  }

  void tell_of(const RunningStage& stage, OutOfMemoryContext context, std::int64_t capacity) {
    OutOfMemoryEvent event = failure_event(stage, std::move(context), capacity, device_, options_.rates);
    event.is_first = !first_without_memory_ || *first_without_memory_ == event.rank;
    events_.take(event);
  }

  /// The stages one after the other, from the one in hand.
  RunStatus train_stages() {
    used_baseline_ = device_.used_bytes();
    for (;;) {
      const bool is_done = is_behind_stage();
      if (!is_done) emit_stage();
      const RunStatus status = train();
      if (is_done)
        purge_.reset();
      else if (stages_.has_stages())
        totals_.end_stage();
      if (status != RunStatus::done || progress_.state.stage.index >= stages_.last()) return status;
      if (any_rank(options_.ranks, interruption_.requests.load() > 0)) return RunStatus::interrupted;
      device_.drop_updates();
      begin_next_stage();
      const std::optional<OutOfMemoryContext> failure = planned_failure(*stage_);
      if (!failure) continue;
      const std::optional<Change> change = find_change(stage_->capacity);
      if (!change) {  // there is less memory than when all of them were planned
        tell_of(*stage_, *failure);
        return RunStatus::out_of_memory;
      }
      adapt(*failure, *change);
    }
  }

  /// Whether the run was resumed behind the last step of the stage in hand, which then only hands its parameters on.
  bool is_behind_stage() const {
    if (!start_.checkpoint || progress_.state.step != start_.checkpoint->state.step) return false;
    const std::int64_t last = progress_.state.stage.step + stage_->compiled->schedule.total_steps();
    return progress_.state.step >= last && progress_.state.evaluated;
  }

  /// What the stage in hand was to begin with goes back after all.
  void purge_kept() {
    if (!kept_.allocator) return;
    kept_ = {};
    purge_->to_fit = purge_->reserved_after > 0;
    purge_->reserved_after = 0;
    purge_->used_after = device_used();
  }

  bool has_next_stage() const { return progress_.state.stage.index < stages_.last(); }

  /// The tensors of the stage before are held; everything else of it has been given back.
  void begin_next_stage() {
    TrainingState& state = progress_.state;
    const std::size_t index = state.stage.index + 1;
    // Its data goes before that of the next comes; the rest stays, for what tells of a failure.
    stage_->data.train.reset();
    stage_->data.validation.reset();
    const CompiledExperiment& trained = *stage_->compiled;
    std::shared_ptr<const CachedSegments> kept;
    if (kept_.allocator) kept = std::make_shared<const CachedSegments>(kept_.allocator->cached());
    const std::unique_ptr<RunningStage> described =
        describe_stage(stages_, index, device_, kept, kept ? kept->num_bytes() : 0, options_.ranks);
    if (!described->compiled->experiment.memory.kept) kept = nullptr;
    if (!kept) purge_kept();
    check_parameters_go_on(trained.program, described->compiled->program, *described->config);
    continuation_ =
        continue_state(*held_, trained, described->compiled->program, *described->config, state.stage, state.step);
    StageBegin begin{.index = index,
                     .name = stages_.name_of(index),
                     .step = state.step,
                     .pass = state.pass,
                     .samples = state.samples,
                     .epoch = state.stage.epoch,
                     .updates_before = continuation_->updates_before};
    if (const std::int64_t steps = state.step - state.stage.step; steps > 0)
      begin.epoch += trained.schedule.step(steps).epoch + 1;
    stage_ = prepare_stage(stages_, index, nullptr, begin.updates_before, device_, std::move(kept), options_.ranks);
    if (!stage_->compiled->experiment.memory.kept) purge_kept();  // what is free has changed meanwhile
    state.best_value.reset();
    state.best_step = 0;
    state.stage = std::move(begin);
    state.evaluated = !stage_->compiled->schedule.evaluates_initially();
    state.stopping_value.reset();
    state.evaluations_without_improvement = 0;
    state.given_config.clear();
    state.frozen = stage_->frozen->checksums();
    progress_.last_evaluation.reset();
    progress_.stopped_early = false;
    describe_in_progress();
    for (const std::string& warning : warnings_of(*stage_)) totals_.warn(warning);
    for (const std::string& remark : stage_->data.remarks) totals_.warn(remark);
  }

  /// What checkpoints say of the stage.
  void describe_in_progress() {
    TrainingState& state = progress_.state;
    state.train_crc32 = stage_->surroundings.train_crc32;
    state.validation_crc32 = stage_->surroundings.validation_crc32;
    state.device = stage_->surroundings.device;
    state.num_samples = stage_->data.train->size();
    state.preprocessing = stage_->data.preprocessing;
    state.adapted = stage_->adapted;
    state.given_config = stage_->adapted.empty() ? "" : resolved_json(stage_->given);
    set_token_rates();
  }

  void emit_stage() {
    if (!stages_.has_stages()) return;
    const CompiledExperiment& compiled = *stage_->compiled;
    const StageBegin& begin = progress_.state.stage;
    totals_.begin_stage(*stage_);
    events_.take(StageEvent{.name = begin.name,
                            .index = begin.index,
                            .count = stages_.count(),
                            .first_step = progress_.state.step + 1,
                            .last_step = begin.step + compiled.schedule.total_steps(),
                            .steps_per_epoch = compiled.schedule.steps_per_epoch(),
                            .batch_size = compiled.schedule.batch_size(),
                            .num_parameters = num_parameters(compiled.program),
                            .num_trained = num_trained_parameters(compiled.program),
                            .capacity = stage_->capacity,
                            .allocator = compiled.experiment.memory.allocator,
                            .planned_peak_reserved = stage_->planned_peak_reserved,
                            .planned_by_category = stage_->planned_by_category,
                            .num_continued = continuation_ ? continuation_->num_continued : 0,
                            .num_begun = continuation_ ? continuation_->num_begun : 0,
                            .purge = purge_});
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
    const bool was_behind = is_behind_stage();
    const Program& program = stage_->compiled->program;
    Session session(*stage_->compiled, stage_->data, device_, stage_->capacity, options_.debug_sync,
                    std::exchange(kept_, {}));
    Executor& executor = session.executor();
    if (saver_stage_ != progress_.state.stage.index) saver_.reset();  // its optimizer may have larger tensors
    if (!saver_)
      saver_.emplace(program, directory_, options_.trainer_version, options_.ranks,
                     stage_->compiled->experiment.checkpoint.sharded);
    saver_stage_ = progress_.state.stage.index;
    TrainingLoop loop(session, options_, interruption_, events_, progress_, &*saver_);
    Outcome outcome;
    std::optional<std::int64_t> refused_capacity;
    try {
      bool is_loaded = false;
      try {
        load(executor);
        is_loaded = true;
        outcome.status = loop.run();
        if (outcome.status == RunStatus::done && has_next_stage()) {
          held_.emplace(executor, options_.ranks);
          hands_on_ = true;
        }
      } catch (const ProgramOutOfMemory& error) {
        refused_capacity = real_capacity(error.failure(), executor.refused_places(), device_);
        outcome.change = prepare_change(*refused_capacity, is_loaded ? &executor : nullptr);
        if (!outcome.change) save_after_failure(is_loaded ? &loop : nullptr);
        outcome.context = program.placement
                              ? describe_refused_segment(program, stage_->compiled->schedule, error.failure())
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
      totals_.try_to_tell_notes();
      take_numbers(session);  // a full disk, a broken device: the end event tells how far the run came
      throw;
    }
    totals_.tell_notes();
    totals_.tell_of_data(*stage_);
    if (const std::int64_t step = executor.first_placed_step(); step >= 0 && !stage_->places_are_told)
      totals_.warn(
          fmt::format("at step {} segments of the caching allocator no longer held what a step allocates, and from "
                      "there on it lay at planned places in one segment",
                      step));
    const bool hands_on = outcome.status == RunStatus::done && has_next_stage();
    take_numbers(session, hands_on && !was_behind && !stages_.config(progress_.state.stage.index + 1)->purge);
    if (refused_capacity && !outcome.change) tell_of(*stage_, outcome.context, *refused_capacity);
    return outcome;
  }

  /// What the run goes on with, the tensors of `loaded`, where there is one, copied to the host. Nothing where the host
  /// has no memory for that: then all of them are on the device still.
  std::optional<Change> prepare_change(std::int64_t capacity, Executor* loaded) {
    try {
      std::optional<Change> change = find_change(capacity);
      if (change && loaded != nullptr) held_.emplace(*loaded, options_.ranks);
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
    if (!leads()) return;
    try {
      if (loop != nullptr) return loop->save_after_failure();
      // Those of the stage before are in its checkpoint.
      if (hands_on_ || !held_ || progress_.state.step == 0 || progress_.is_saved()) return;
      saver_->save_alone(progress_, stage_->compiled->experiment, held_->saved_tensors(), events_);
    } catch (const DataError& disk) {
      totals_.note_error(disk.what());  // the report matters more
    }
  }

  /// Of a session that is over. `keeps`: its cache goes on into the next stage.
  void take_numbers(Session& session, bool keeps = false) {
    Executor& executor = session.executor();
    totals_.add(executor);
    StageEvent::Purge purge{.used_baseline = used_baseline_, .used_before = device_used()};
    const StepMemory held = step_memory(executor.allocator().statistics());
    purge.allocated_before = held.allocated;
    purge.reserved_before = held.reserved;
    StepMemory after;
    if (keeps) kept_ = session.hand_on_memory();
    if (kept_.allocator) {
      after = step_memory(kept_.allocator->statistics());
    } else {
      executor.release_all();
      after = step_memory(executor.allocator().statistics());
    }
    purge.allocated_after = after.allocated;
    purge.reserved_after = after.reserved;
    purge.used_after = device_used();
    purge_ = purge;
  }

  /// 0 where the device broke.
  std::int64_t device_used() {
    try {
      return device_.ask_used_bytes();
    } catch (const DeviceError&) {
      return 0;
    }
  }

  /// Parameters and optimizer state on the device: those that were held, the checkpoint's, or fresh ones.
  void load(Executor& executor) {
    const Program& program = executor.program();
    const bool goes_on = !hands_on_ && (held_ || start_.checkpoint);  // with averages of its own
    if (hands_on_) {
      load_cleared_state(executor, stage_->given);
      write_frozen_constants(executor);
      held_->hand_on(executor, [this](const std::string& parameter) { return continuation_->continues(parameter); });
    } else if (goes_on) {
      executor.begin_step(0);
      executor.run(program.load, {});
      clear_statistics(executor);
      if (held_)
        held_->restore(executor);
      else
        restore_checkpoint(*start_.checkpoint, executor);
    } else {
      load_fresh_state(executor, stage_->given);
      if (weights_ != nullptr) load_weights(*weights_match_, *weights_, executor, saver_->memory());
    }
    stage_->frozen->load(executor, saver_->memory());
    if (goes_on) {
      if (!program.refresh.instructions.empty()) executor.run(program.refresh, {});
    } else {
      follow_parameters(executor);
    }
    device_.synchronize();
    held_.reset();                                        // until here, what fails is saved from there
    if (std::exchange(hands_on_, false)) malloc_trim(0);  // what the heap keeps of the stage before, too
  }

  RunStages& stages_;
  const RunStart& start_;
  const WeightFiles* const weights_;  ///< to start from, or none
  std::optional<WeightsMatch> weights_match_;
  Device& device_;
  const TrainingOptions& options_;
  const Interruption& interruption_;
  EventSink& events_;
  const RunDirectory directory_;
  const ReplacedRun replaced_{directory_.path()};
  std::unique_ptr<RunningStage> stage_;  ///< that is trained
  /// How the optimizer's state goes on into it; nothing of the first that this process trains.
  std::optional<StateContinuation> continuation_;
  std::optional<StageEvent::Purge> purge_;  ///< in front of it
  SessionMemory kept_;                      ///< of the stage before, that the next session goes on in; or none
  std::int64_t used_baseline_ = 0;          ///< of the device, before the first stage
  std::optional<ProgressSaver> saver_;      ///< once there is something to train
  HeapReserve heap_reserve_;
  std::optional<HeldTensors> held_;  ///< while no executor holds them
  bool hands_on_ = false;            ///< they are those of the stage before
  std::size_t saver_stage_ = 0;      ///< that `saver_` is for
  LaterStages later_;
  std::optional<int> first_without_memory_;  ///< of the ranks, before anything is trained
  RunProgress progress_;
  std::vector<std::string> warnings_;  ///< to tell behind the start
  RunTotals totals_{directory_, replaced_, device_, progress_, events_};
};

/// In any stage.
bool has_sharded_checkpoints(const Experiment& experiment) {
  return experiment.checkpoint.sharded || std::ranges::any_of(experiment.stages, [](const StageConfig& stage) {
           return stage.experiment->checkpoint.sharded;
         });
}

}  // namespace

RunStatus run_training(const Experiment& experiment, LoadedData data, Device& device, const TrainingOptions& options,
                       Interruption& interruption, EventSink& events) {
  const RunDirectory directory(experiment.output);
  const bool leads = experiment.parallel.rank == 0;
  require_internal((options.ranks == nullptr ? 1 : options.ranks->size()) == total_ranks(experiment.parallel),
                   "as many ranks as the experiment has reach one another");
  std::optional<RunLock> lock;
  if (leads) {
    lock.emplace(directory.path());
    directory.prepare();
  }
  meet_ranks(options.ranks);  // the folder is as it will be found
  const bool share_folder = options.ranks != nullptr && has_sharded_checkpoints(experiment);
  if (share_folder) require_shared_folder(directory.path(), *options.ranks);
  RunStart start = choose_start(directory, experiment.config_path, options, share_folder ? options.ranks : nullptr);
  meet_ranks(options.ranks);  // and all have looked
  if (!leads) {
    start.replaces_run = false;
    make_directories_durably(folder_of_rank(experiment.output, experiment.parallel.rank));
  }
  // Opened before anything moves: it may be one of the run that is replaced.
  std::optional<WeightFiles> weights;
  if (!experiment.weights.file.empty() && !start.checkpoint) weights = intact_weights(experiment.weights.file);
  RunStages stages(experiment, std::move(data), options);
  TrainingRun run(stages, start, weights ? &*weights : nullptr, device, options, interruption, events);
  if (leads && !start.replaces_run) directory.remove_out_of_memory();
  if (leads && !start.continues_own) directory.remove_ranks(total_ranks(experiment.parallel));
  return run.run();
}

}  // namespace trainer
