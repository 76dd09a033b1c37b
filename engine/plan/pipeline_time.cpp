#include "engine/plan/pipeline_time.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "engine/errors.h"
#include "engine/ops/op_definition.h"
#include "engine/plan/step_routines.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

/// A message of one micro-batch, or its gradient.
using MessageKey = std::tuple<std::int32_t, bool, std::int32_t>;

/// One end of it.
struct MessageEnd {
  MessageKey key;
  double ready = 0;
  const OpCall* call = nullptr;
};

/// A stage as far as it has come.
struct PlayedStage {
  const Program* program = nullptr;
  std::vector<std::pair<const OpCall*, std::int32_t>> calls;  ///< with the pass that each is of
  std::size_t next = 0;
  double now = 0, busy = 0, exchanged_until = 0;
  std::deque<MessageEnd> queue;               ///< of messages that it has come to and that are not done
  std::map<const OpCall*, double> done_at{};  ///< of started ones, the last run of each
  bool waits_for_message = false;             ///< the last of the queue, which is not started
};

class PlayedPipeline {
 public:
  PlayedPipeline(std::span<const Program* const> stages, const RunSchedule& schedule, const MachineRates& rates)
      : rates_(rates) {
    for (const Program* const program : stages) {
      PlayedStage& stage = stages_.emplace_back();
      stage.program = program;
      for (const PipelineSteps::Entry& entry : pipeline_step(*program, schedule.step(1)).entries)
        for_each_call(*program, program->pipeline->routines[static_cast<std::size_t>(entry.routine)],
                      [&](const OpCall& call) { stage.calls.emplace_back(&call, entry.pass); });
    }
    for (bool moves = true; moves;) {
      moves = exchange();
      for (PlayedStage& stage : stages_) moves = advance(stage) || moves;
    }
    for (const PlayedStage& stage : stages_)
      require_internal(stage.next == stage.calls.size(), "stages of a pipeline do not wait for each other for ever");
  }

  const std::vector<PlayedStage>& stages() const { return stages_; }

 private:
  static MessageKey key_of(const OpCall& call, std::int32_t pass) {
    return {attributes_of<PeerAttributes>(call.op).message, call.phase != Phase::forward, pass};
  }
  static bool is_message(const OpCall& call) { return call.op.kind == OpKind::send || call.op.kind == OpKind::receive; }

  /// As far as it comes without another; whether it moved.
  bool advance(PlayedStage& stage) {
    const std::size_t before = stage.next;
    while (stage.next < stage.calls.size() && !stage.waits_for_message) {
      const auto& [call, pass] = stage.calls[stage.next];
      if (call->op.kind == OpKind::finish_exchange) {
        if (!finish(stage, *call)) break;
      } else if (is_message(*call)) {
        stage.queue.push_back({key_of(*call, pass), stage.now, call});
        stage.waits_for_message = !is_started(call->op);
      } else {
        stage.now += predicted_seconds(*stage.program, *call, rates_);
        stage.busy += computing_seconds(*stage.program, *call, rates_);
      }
      ++stage.next;
    }
    return stage.next > before;
  }

  /// Whether what it waits for is done.
  static bool finish(PlayedStage& stage, const OpCall& call) {
    const auto shares = [&](const OpCall& exchange) {
      const auto is_named = [&](BufferId operand) {
        return std::find(call.inputs.begin(), call.inputs.end(), operand) != call.inputs.end();
      };
      return std::any_of(exchange.inputs.begin(), exchange.inputs.end(), is_named) ||
             std::any_of(exchange.outputs.begin(), exchange.outputs.end(), is_named);
    };
    for (const MessageEnd& end : stage.queue)
      if (shares(*end.call)) return false;
    for (const auto& [exchange, at] : stage.done_at)
      if (shares(*exchange)) stage.now = std::max(stage.now, at);
    return true;
  }

  /// Whether some message that both ends have come to went through.
  bool exchange() {
    bool moves = false;
    for (PlayedStage& stage : stages_) {
      if (stage.queue.empty()) continue;
      for (PlayedStage& other : stages_) {
        if (&other == &stage || other.queue.empty() || other.queue.front().key != stage.queue.front().key) continue;
        const double begin = std::max(
            {stage.queue.front().ready, other.queue.front().ready, stage.exchanged_until, other.exchanged_until});
        const double end =
            begin + exchange_seconds(exchange_of(stage.queue.front().call->op), rates_.links).value_or(0);
        for (PlayedStage* const each : {&stage, &other}) {
          each->exchanged_until = end;
          each->done_at[each->queue.front().call] = end;
          each->queue.pop_front();
          if (each->waits_for_message && each->queue.empty()) {
            each->waits_for_message = false;
            each->now = std::max(each->now, end);
          }
        }
        moves = true;
        break;
      }
    }
    return moves;
  }

  const MachineRates& rates_;
  std::vector<PlayedStage> stages_;
};

/// What stages tell each other and their ranks in an update; a sum of a weight's gradients is of two stages, and begins
/// when both have come to it.
class PlayedUpdate {
 public:
  PlayedUpdate(std::span<const Program* const> programs, const MachineRates& rates) : rates_(rates) {
    for (const Program* const program : programs) {
      Stage& stage = stages_.emplace_back();
      stage.ranks = program->ranks;
      for_each_call(*program, program->update, [&](const OpCall& call) {
        if (is_exchange(call.op)) stage.exchanges.push_back(&call.op);
      });
    }
    for (bool moves = true; moves;) {
      moves = false;
      for (Stage& stage : stages_) moves = advance(stage) || moves;
    }
    for (const Stage& stage : stages_)
      require_internal(stage.next == stage.exchanges.size(), "stages do not wait for each other for ever");
  }

  /// Until the last of them is done.
  double seconds() const {
    return std::max_element(stages_.begin(), stages_.end(),
                            [](const Stage& a, const Stage& b) { return a.now < b.now; })
        ->now;
  }

 private:
  struct Stage {
    RankLayout ranks;
    std::vector<const Op*> exchanges;
    std::size_t next = 0;
    double now = 0;
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;

  /// The stages that come together to what `stage` comes to next; its own twice where these are no two.
  static Pair pair_at(const Stage& stage) {
    const Op& op = *stage.exchanges[stage.next];
    const RankGroup& group = ranks_of(op);
    if (op.kind != OpKind::all_reduce || !attributes_of<AllReduceAttributes>(op).is_pair)
      return {stage.ranks.stage(), stage.ranks.stage()};
    return {stage.ranks.of_rank(group.first).stage(), stage.ranks.of_rank(group.last()).stage()};
  }

  bool advance(Stage& stage) {
    if (stage.next == stage.exchanges.size()) return false;
    const Pair pair = pair_at(stage);
    const std::int64_t own = stage.ranks.stage();
    Stage& other = stages_[static_cast<std::size_t>(pair.first == own ? pair.second : pair.first)];
    if (&other != &stage && (other.next == other.exchanges.size() || pair_at(other) != pair)) return false;
    const double end = std::max(stage.now, other.now) +
                       exchange_seconds(exchange_of(*stage.exchanges[stage.next]), rates_.links).value_or(0);
    stage.now = other.now = end;
    ++stage.next;
    if (&other != &stage) ++other.next;
    return true;
  }

  const MachineRates& rates_;
  std::vector<Stage> stages_;
};

}  // namespace

PipelineTime predict_pipeline_time(std::span<const Program* const> stages, const RunSchedule& schedule,
                                   const MachineRates& rates) {
  const PlayedPipeline played(stages, schedule, rates);
  PipelineTime time;
  const double update_exchanges = PlayedUpdate(stages, rates).seconds();
  double computing = 0, longest = 0, update = 0;
  for (const PlayedStage& stage : played.stages()) {
    double seconds = 0;
    for_each_call(*stage.program, stage.program->update,
                  [&](const OpCall& call) { seconds += computing_seconds(*stage.program, call, rates); });
    longest = std::max(longest, stage.now);
    computing += stage.busy;
    update = std::max(update, seconds);
    time.busy_seconds.push_back(stage.busy + seconds);
  }
  const auto last = std::max_element(played.stages().begin(), played.stages().end(),
                                     [](const PlayedStage& a, const PlayedStage& b) { return a.now < b.now; });
  time.bubble = 1 - computing / (static_cast<double>(stages.size()) * longest);
  time.step.update = update;
  time.step.communication = longest - last->busy + update_exchanges;
  time.step.seconds = rates.step_seconds + longest + update + update_exchanges;
  for (const auto& [call, pass] : last->calls) {
    double& phase = call->phase == Phase::forward     ? time.step.forward
                    : call->phase == Phase::recompute ? time.step.recompute
                                                      : time.step.backward;
    phase += computing_seconds(*last->program, *call, rates);
  }
  return time;
}

}  // namespace trainer
