#include "engine/train/measure/step_timing.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "engine/ops/op_definition.h"
#include "engine/train/fresh_state.h"
#include "engine/train/session.h"
#include "engine/train/step_driver.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// Times each call of a routine, in order.
class CallTimer final : public CallObserver {
 public:
  explicit CallTimer(Device& device) : device_(device) {}

  void start_routine(std::vector<std::vector<double>>& seconds) {
    seconds_ = &seconds;
    position_ = 0;
  }

  void before_call(const OpCall&) override {
    device_.synchronize();
    begin_ = Clock::now();
  }

  bool after_call(const OpCall& call, const LiveBuffers& live) override {
    double seconds = seconds_between(begin_, Clock::now());
    // A slot of the host's is filled once and emptied once.
    const bool may_repeat = definition_of(call.op.kind).role != Role::transfer && !communicates(call.op);
    if (device_.runs_ahead() && may_repeat) seconds = time_repeated(call, live, seconds);
    if (position_ == seconds_->size()) seconds_->emplace_back();
    (*seconds_)[position_++].push_back(seconds);
    return true;
  }

 private:
  /// Between two waits; short calls more often.
  double time_repeated(const OpCall& call, const LiveBuffers& live, double once) {
    constexpr double enough_seconds = 1e-3;
    const int num_runs = static_cast<int>(std::clamp(enough_seconds / std::max(once, 1e-6), 2.0, 50.0));
    Kernel& kernel = device_.prepare(call.op);
    operands_.clear();
    for (const auto* buffers : {&call.inputs, &call.outputs})
      for (const BufferId buffer : *buffers) operands_.push_back(live.address(buffer));
    const std::span<void* const> all(operands_);
    const OperandAddresses addresses{.inputs = all.first(call.inputs.size()),
                                     .outputs = all.subspan(call.inputs.size()),
                                     .workspace = call.workspace >= 0 ? live.address(call.workspace) : nullptr};
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < num_runs; ++i) kernel.run(addresses);
    device_.synchronize();
    return seconds_between(begin, Clock::now()) / num_runs;
  }

  Device& device_;
  std::vector<std::vector<double>>* seconds_ = nullptr;
  std::size_t position_ = 0;
  Clock::time_point begin_;
  std::vector<void*> operands_;
};

/// Steps of one program on a device, of whole batches, as the training loop drives them.
class TimedSteps {
 public:
  TimedSteps(const CompiledExperiment& compiled, const LoadedData& data, Device& device, std::int64_t capacity)
      : program_(compiled.program),
        step_(compiled.schedule.step(1)),
        session_(compiled, data, device, capacity),
        sampler_({.num_samples = data.train->size(),
                  .batch_size = compiled.schedule.batch_size(),
                  .shuffle = compiled.experiment.data.shuffle,
                  .drop_last = true,
                  .seed = compiled.experiment.seed}),
        driver_(session_, sampler_) {
    step_.last_is_odd = false;
    scalars_.seed = compiled.experiment.seed;
    scalars_.gradient_scale = 1.0F / static_cast<float>(step_.num_micro_batches * compiled.schedule.batch_size());
    scalars_.average_share = 0.001;  // of a step that counts
    for (float& scale : scalars_.further_gradient_scales) scale = scalars_.gradient_scale;
    load_fresh_state(session_.executor(), compiled.experiment);
    driver_.start_reading({});
  }
  TimedSteps(const TimedSteps&) = delete;
  TimedSteps& operator=(const TimedSteps&) = delete;

  struct Parts {
    double step = 0, data = 0, host = 0;
  };

  /// A step as training runs it.
  Parts run_step() {
    const double data_before = driver_.seconds_of_data();
    const Clock::time_point begin = Clock::now();
    driver_.lay_out(++scalars_.update, step_);
    const Clock::time_point is_laid_out = Clock::now();
    driver_.queue(scalars_, {});
    driver_.wait_for_oldest();
    driver_.remove_oldest();
    const Clock::time_point end = Clock::now();
    scalars_.pass += static_cast<std::uint32_t>(step_.num_micro_batches);
    return {.step = seconds_between(begin, end),
            .data = driver_.seconds_of_data() - data_before,
            .host = seconds_between(begin, is_laid_out)};
  }

  /// A step with a look at the clock around each call.
  void run_observed(CallTimer& timer, std::array<std::vector<std::vector<double>>, 3>& seconds) {
    Executor& executor = session_.executor();
    executor.begin_step(++scalars_.update);
    const Program::MicroBatch& whole = program_.micro_batches.front();
    for (std::int64_t i = 0; i < std::min<std::int64_t>(num_micro_batches(), 2); ++i, ++scalars_.pass) {
      timer.start_routine(seconds[static_cast<std::size_t>(i)]);
      executor.run(i == 0 ? whole.first : whole.next, scalars_, &driver_.take_batch(), &timer);
    }
    timer.start_routine(seconds[2]);
    executor.run(program_.update, scalars_, nullptr, &timer);
  }

  std::int64_t num_micro_batches() const { return step_.num_micro_batches; }

 private:
  const Program& program_;
  RunSchedule::Step step_;
  Session session_;
  const Sampler sampler_;
  StepDriver driver_;
  StepScalars scalars_;
};

void append_calls(const Routine& routine, double times, const std::vector<std::vector<double>>& seconds,
                  std::vector<CallTime>& calls) {
  std::size_t position = 0;
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind != Instruction::Kind::run) continue;
    calls.push_back({instruction.index, times, lower_quartile(seconds[position++])});
  }
}

}  // namespace

double StepTiming::op_seconds() const {
  double sum = 0;
  for (const CallTime& call : calls) sum += call.times * call.seconds;
  return sum;
}

double lower_quartile(std::span<const double> values) {
  require_internal(!values.empty(), "a quantile is of some values");
  std::vector<double> sorted(values.begin(), values.end());
  const auto position = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 4);
  std::nth_element(sorted.begin(), position, sorted.end());
  return *position;
}

StepTiming time_steps(const CompiledExperiment& compiled, const LoadedData& data, Device& device, std::int64_t capacity,
                      const TimingOptions& options) {
  const Clock::time_point begin = Clock::now();
  const auto may_go_on = [&](std::size_t num_done, std::int64_t num_wanted, double share) {
    if (num_done == 0) return num_wanted > 0;
    const bool has_time =
        options.max_seconds <= 0 || seconds_between(begin, Clock::now()) < share * options.max_seconds;
    return num_done < static_cast<std::size_t>(num_wanted) && has_time;
  };
  TimedSteps steps(compiled, data, device, capacity);
  for (std::int64_t i = 0; i < options.num_warm_up; ++i) steps.run_step();

  std::vector<double> step_seconds, data_seconds, host_seconds;
  while (may_go_on(step_seconds.size(), options.num_steps, 0.5)) {
    const TimedSteps::Parts parts = steps.run_step();
    step_seconds.push_back(parts.step);
    data_seconds.push_back(parts.data);
    host_seconds.push_back(parts.host);
  }
  CallTimer timer(device);
  std::array<std::vector<std::vector<double>>, 3> seconds;
  std::int64_t num_observed = 0;
  for (; may_go_on(static_cast<std::size_t>(num_observed), options.num_observed, 1); ++num_observed)
    steps.run_observed(timer, seconds);

  StepTiming timing;
  timing.num_steps = static_cast<std::int64_t>(step_seconds.size());
  timing.num_observed = num_observed;
  timing.step_seconds = lower_quartile(step_seconds);
  timing.data_seconds = lower_quartile(data_seconds);
  timing.host_seconds = lower_quartile(host_seconds);
  const Program::MicroBatch& whole = compiled.program.micro_batches.front();
  append_calls(whole.first, 1, seconds[0], timing.calls);
  if (steps.num_micro_batches() > 1)
    append_calls(whole.next, static_cast<double>(steps.num_micro_batches() - 1), seconds[1], timing.calls);
  append_calls(compiled.program.update, 1, seconds[2], timing.calls);
  return timing;
}

}  // namespace trainer
