#include "engine/train/step_driver.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "engine/plan/step_routines.h"

namespace trainer {
namespace {

/// Adds the seconds of its life to a sum.
class AddedSeconds {
 public:
  explicit AddedSeconds(double& sum) : sum_(sum) {}
  ~AddedSeconds() { sum_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  AddedSeconds(const AddedSeconds&) = delete;
  AddedSeconds& operator=(const AddedSeconds&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  double& sum_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

StepDriver::StepDriver(Session& session, const Sampler& sampler)
    : session_(session),
      sampler_(sampler),
      program_(session.program()),
      executor_(session.executor()),
      results_memory_(
          session.device().make_host_memory(static_cast<std::int64_t>(num_result_slots * sizeof(StepResult)))) {
  std::vector<BufferId> results = {program_.loss_statistics};
  if (program_.loss_scale >= 0) results.push_back(program_.loss_scale);
  executor_.prepare_feed(results);
}

StepDriver::~StepDriver() {
  try {
    executor_.finish_staging();
    executor_.device().synchronize();  // copies from and to the host memory held here
  } catch (const std::exception&) {    // the device is lost, and nothing is copied any more
  }
}

void StepDriver::start_reading(BatchPosition start) {
  if (takes_batches(program_)) reader_ = session_.read_training(sampler_, start);
  seconds_of_data_ = seconds_of_waiting_ = 0;
}

void StepDriver::stop_reading() {
  executor_.finish_staging();
  staged_batch_ = nullptr;
  reader_.reset();
}

void StepDriver::lay_out(std::int64_t number, const RunSchedule::Step& step) {
  executor_.begin_step(number);
  routines_.clear();
  groups_.clear();
  for_each_step_routine(program_, session_.schedule(), step, [&](const Routine& routine, std::int64_t pass) {
    if (pass != no_pass) groups_.push_back({routines_.size(), pass, !program_.pipeline || !routine.fields.empty()});
    routines_.push_back(&routine);
  });
  executor_.lay_out(routines_);
  laid_out_ = {.number = number,
               .step = step,
               .memory = executor_.memory(),
               .num_alloc_retries = executor_.allocator().statistics().num_alloc_retries};
}

void StepDriver::queue(const StepScalars& first_scalars, QueueOptions options) {
  laid_out_.first_scalars = first_scalars;
  queued_.reserve(queued_.size() + 1);
  is_within_step_ = true;
  num_read_ = staged_batch_ != nullptr ? 1 : 0;
  if (groups_.size() == 1) laid_out_.fed_number = feed();
  if (laid_out_.fed_number < 0) queue_passes(options.batch_follows);
  queued_.push_back(laid_out_);
  is_within_step_ = false;
  if (laid_out_.fed_number >= 0 && !options.may_wait) executor_.start_fed();
  mark_started();
}

void StepDriver::queue_passes(bool batch_follows) {
  const RunSchedule& schedule = session_.schedule();
  StepScalars scalars = laid_out_.first_scalars;
  const auto takes_batch = [](const QueuedRoutines& group) { return group.takes_batch; };
  const auto num_behind = std::find_if(groups_.rbegin(), groups_.rend(), takes_batch) - groups_.rbegin();
  const std::size_t num_taking = groups_.size() - static_cast<std::size_t>(num_behind);
  if (num_taking == 0) {
    staged_batch_ = nullptr;
    read_rest_of_step();
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const QueuedRoutines& group = groups_[i];
    const HostBatch* const batch = group.takes_batch ? &staged_or_next(group) : nullptr;
    scalars.pass = laid_out_.first_scalars.pass + static_cast<std::uint32_t>(schedule.micro_batch_of(group.pass));
    scalars.first_sample = schedule.own_of_pass(laid_out_.step, group.pass).begin;
    const std::size_t end = i + 1 == groups_.size() ? routines_.size() : groups_[i + 1].first;
    executor_.queue(group.first, end - group.first, scalars, batch, [&] {
      if (batch != nullptr) reader_->release();
    });
    // What is staged behind the last one is the next step's.
    if (i + 1 == num_taking) read_rest_of_step();
    if (group.takes_batch) stage_next(i, batch_follows);
  }
  std::byte* const slot = result_slot(laid_out_.number);
  executor_.queue_read(program_.loss_statistics, slot + offsetof(StepResult, statistics));
  if (program_.loss_scale >= 0) executor_.queue_read(program_.loss_scale, slot + offsetof(StepResult, loss_scale));
}

/// Sets one mark for the newest steps that have none, once they are started.
void StepDriver::mark_started() {
  if (executor_.has_waiting_steps() || queued_.empty() || queued_.back().mark >= 0) return;
  const std::int64_t mark = executor_.device().set_mark();
  for (QueuedStep& queued : queued_)
    if (queued.mark < 0) queued.mark = mark;
}

std::int64_t StepDriver::feed() {
  if (!executor_.feeds()) return -1;
  const HostBatch* batch = staged_batch_;
  if (batch == nullptr) {
    executor_.finish_staging();  // the reader takes the batch before back
    batch = &batch_of(0);
  }
  require_internal(batch->num_samples == size_of_pass(0), "the reader delivers the batches of the schedule");
  const std::int64_t number = executor_.feed(laid_out_.first_scalars, *batch);
  if (number < 0) {
    if (staged_batch_ == nullptr) executor_.stage(*routines_.front(), *batch);
    staged_batch_ = batch;
    return number;
  }
  if (staged_batch_ != nullptr) executor_.take_back_staged();
  staged_batch_ = nullptr;
  laid_out_.data_seconds = std::exchange(seconds_of_waiting_, 0);
  return number;
}

/// The batch of a pass: the one that is on its way to the device, or the reader's next.
const HostBatch& StepDriver::staged_or_next(const QueuedRoutines& group) {
  const AddedSeconds seconds(seconds_of_data_);
  const HostBatch* batch = staged_batch_;
  if (batch == nullptr) {
    executor_.device().synchronize();  // the reader takes the batch before back
    batch = &batch_of(group.pass);
    executor_.stage(*routines_[group.first], *batch);
  }
  staged_batch_ = nullptr;
  require_internal(batch->num_samples == size_of_pass(group.pass), "the reader delivers the batches of the schedule");
  return *batch;
}

/// Where the device copies beside its kernels: starts the copy of what follows a pass that was just queued.
void StepDriver::stage_next(std::size_t group, bool batch_follows) {
  if (program_.staged_fields.empty()) return;
  std::size_t next = group + 1;
  while (next < groups_.size() && !groups_[next].takes_batch) ++next;
  const bool is_last = next == groups_.size();
  // An evaluation stages its own batches.
  if (is_last && !batch_follows) return;
  const AddedSeconds seconds(seconds_of_data_);
  executor_.finish_staging();  // the reader takes the batch before back
  if (!is_last) {
    staged_batch_ = &batch_of(groups_[next].pass);
    return executor_.stage(*routines_[groups_[next].first], *staged_batch_);
  }
  staged_batch_ = &next_batch();
  // Of a rank without samples no stage of a pipeline takes it.
  const bool is_taken = !program_.pipeline || staged_batch_->num_samples > 0;
  if (is_taken) executor_.stage(taking_routine(program_, staged_batch_->num_samples), *staged_batch_);
}

/// Reads what a pipeline does not take: batches without samples.
void StepDriver::read_rest_of_step() {
  const std::int64_t num_passes = session_.schedule().num_passes(laid_out_.step);
  if (reader_ != nullptr && num_read_ < num_passes) {
    executor_.finish_staging();  // the reader takes the batch before back
    batch_of(num_passes - 1);
  }
  laid_out_.data_seconds = std::exchange(seconds_of_waiting_, 0);
}

const HostBatch& StepDriver::batch_of(std::int64_t pass) {
  const HostBatch* batch = nullptr;
  for (; num_read_ <= pass; ++num_read_) batch = &next_batch();
  require_internal(batch != nullptr, "batches are taken in their order");
  return *batch;
}

const HostBatch& StepDriver::take_batch() {
  const HostBatch* const staged = std::exchange(staged_batch_, nullptr);
  executor_.finish_staging();
  return staged != nullptr ? *staged : next_batch();
}

const HostBatch& StepDriver::next_batch() {
  const AddedSeconds seconds(seconds_of_waiting_);
  const HostBatch* const batch = reader_->next();
  require_internal(batch != nullptr, "the reader of training data is endless");
  return *batch;
}

std::int64_t StepDriver::size_of_pass(std::int64_t pass) const {
  return session_.schedule().own_of_pass(laid_out_.step, pass).count;
}

StepResult StepDriver::wait_for_oldest() {
  if (queued_.front().mark < 0) {
    executor_.start_fed();
    mark_started();
  }
  const QueuedStep& oldest = queued_.front();
  executor_.device().wait_for(oldest.mark);
  StepResult result;
  if (oldest.fed_number < 0) {
    std::memcpy(&result, result_slot(oldest.number), sizeof(result));
    return result;
  }
  // One behind the other, as many bytes as their buffers have.
  const std::byte* const results = executor_.fed_results(oldest.fed_number);
  const auto num_bytes = static_cast<std::size_t>(program_.buffers[program_.loss_statistics].num_bytes);
  std::memcpy(result.statistics.data(), results, num_bytes);
  if (program_.loss_scale >= 0) std::memcpy(result.loss_scale.data(), results + num_bytes, sizeof(LossScaleState));
  return result;
}

void StepDriver::drop_all() {
  executor_.drop_fed();
  executor_.device().synchronize();
  queued_.clear();
  staged_batch_ = nullptr;
}

}  // namespace trainer
