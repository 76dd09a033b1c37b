#include "engine/plan/cost_model.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "engine/errors.h"
#include "engine/ops/op_definition.h"
#include "engine/plan/step_routines.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

/// Adds up a step's ops in their order.
class StepClock {
 public:
  StepClock(const Program& program, const MachineRates& rates, StepTime& time)
      : program_(program), rates_(rates), time_(time) {}

  void add(const Routine& routine, double times) {
    for_each_call(program_, routine, [&](const OpCall& call) {
      if (communicates(call.op)) pass(call.phase, true, times, waited(call));
      pass(call.phase, false, times, computing_seconds(program_, call, rates_));
    });
  }

 private:
  struct Started {
    const OpCall* call = nullptr;
    double end = 0;
  };

  /// For that op, once everything in front of it has been done.
  double waited(const OpCall& call) {
    if (call.op.kind == OpKind::finish_exchange) {
      std::size_t count = started_.size();
      while (count > 0 && !shares_operand(*started_[count - 1].call, call)) --count;
      return wait_for(count);
    }
    const double seconds = exchange_seconds(exchange_of(call.op), rates_.links).value_or(0);
    if (!is_started(call.op)) {
      std::size_t count = started_.size();
      while (count > 0 && ranks_of(started_[count - 1].call->op) != ranks_of(call.op)) --count;
      return wait_for(count) + seconds;
    }
    last_end_ = std::max(now_, last_end_) + seconds;
    started_.push_back({&call, last_end_});
    return 0;
  }
  static bool shares_operand(const OpCall& exchange, const OpCall& finish) {
    const auto is_named = [&](BufferId operand) {
      return std::find(finish.inputs.begin(), finish.inputs.end(), operand) != finish.inputs.end();
    };
    return std::any_of(exchange.inputs.begin(), exchange.inputs.end(), is_named) ||
           std::any_of(exchange.outputs.begin(), exchange.outputs.end(), is_named);
  }
  /// For the first so many of those on their way.
  double wait_for(std::size_t count) {
    if (count == 0) return 0;
    const double end = started_[count - 1].end;
    started_.erase(started_.begin(), started_.begin() + static_cast<std::ptrdiff_t>(count));
    return std::max(0.0, end - now_);
  }

  void pass(Phase phase, bool communicates, double times, double seconds) {
    now_ += seconds;
    count(phase, communicates, times * seconds);
  }

  void count(Phase phase, bool communicates, double seconds) {
    time_.seconds += seconds;
    if (communicates) time_.communication += seconds;
    switch (phase) {
      case Phase::forward:
        time_.forward += seconds;
        break;
      case Phase::recompute:
        time_.recompute += seconds;
        break;
      case Phase::backward:
        time_.backward += seconds;
        break;
      case Phase::update:
        time_.update += seconds;
        break;
      case Phase::load:
      case Phase::eval:
        break;
    }
  }

  const Program& program_;
  const MachineRates& rates_;
  StepTime& time_;
  double now_ = 0;               // a routine that repeats itself counts once: it finishes what it starts
  double last_end_ = 0;          // of the last exchange that was started
  std::deque<Started> started_;  // that have not been waited for
};

}  // namespace

std::int64_t workspace_bytes_of(const Program& program, const OpCall& call) {
  return call.workspace < 0 ? 0 : program.buffers[static_cast<std::size_t>(call.workspace)].num_bytes;
}

double executed_flops(const Op& op, std::int64_t workspace_bytes) {
  const OpDefinition& definition = definition_of(op.kind);
  const auto flops = static_cast<double>(definition.flops(op));
  if (definition.work != Work::convolution || rate_class_of(op, workspace_bytes) == RateClass::usual) return flops;
  // Of an input's gradient the output is what the op calls its output, else what it calls y.
  const Shape& image = (definition.role == Role::weight_gradient ? op.inputs[0] : op.outputs[0]).shape;
  constexpr std::int64_t tile = 4;
  const auto whole_tiles = [](std::int64_t size) { return (size + tile - 1) / tile * tile; };
  return flops * static_cast<double>(whole_tiles(image[1]) * whole_tiles(image[2])) /
         static_cast<double>(image[1] * image[2]);
}

double predicted_seconds(double flops, double num_bytes, const OpRate& rate) {
  return std::max(flops / rate.flops_per_second, num_bytes / rate.bytes_per_second) + rate.call_seconds;
}

double computing_seconds(const Op& op, std::int64_t workspace_bytes, const MachineRates& rates) {
  if (definition_of(op.kind).role == Role::communication) return 0;
  return predicted_seconds(executed_flops(op, workspace_bytes), static_cast<double>(num_operand_bytes(op)),
                           rates.of(op, workspace_bytes));
}

double computing_seconds(const Program& program, const OpCall& call, const MachineRates& rates) {
  return computing_seconds(call.op, workspace_bytes_of(program, call), rates);
}

double predicted_seconds(const Op& op, std::int64_t workspace_bytes, const MachineRates& rates) {
  return computing_seconds(op, workspace_bytes, rates) + exchange_seconds(exchange_of(op), rates.links).value_or(0);
}

double predicted_seconds(const Program& program, const OpCall& call, const MachineRates& rates) {
  return predicted_seconds(call.op, workspace_bytes_of(program, call), rates);
}

StepTime predict_step_time(const Program& program, const RunSchedule& schedule, const MachineRates& rates) {
  StepTime time;
  time.seconds = rates.step_seconds;
  StepClock clock(program, rates, time);
  for_each_first_step_routine(program, schedule,
                              [&](const Routine& routine, double times) { clock.add(routine, times); });
  require_internal(std::isfinite(time.seconds) && time.seconds > 0, "a step takes time");
  return time;
}

}  // namespace trainer
