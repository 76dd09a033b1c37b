#include "engine/program/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/errors.h"
#include "engine/memory/rounding.h"
#include "engine/program/part_sums.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;

/// As in engine/plan/memory_plan.h: no capacity is above it.
constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

/// A routine on the timeline, and those that may come directly after it.
struct Stretch {
  const Routine* routine = nullptr;
  std::vector<std::size_t> followers;
  std::vector<char> live_at_start;  // by buffer
};

/// Every routine of a run; see Note [Places of buffers].
std::vector<Stretch> stretches_of(const Program& program) {
  std::vector<Stretch> stretches;
  const auto add = [&](const Routine& routine) {
    stretches.push_back({&routine, {}, std::vector<char>(program.buffers.size(), 0)});
    return stretches.size() - 1;
  };
  const std::size_t load = add(program.load), refresh = add(program.refresh);
  std::vector<std::size_t> between_steps = {refresh};
  // A routine that runs in the first micro-batch and in further ones finds other buffers live.
  std::map<std::pair<const Routine*, bool>, std::size_t> of_steps;
  const auto of_step = [&](const Routine& routine, bool is_of_further = false) {
    const auto [known, is_new] = of_steps.try_emplace({&routine, is_of_further}, 0);
    if (is_new) known->second = add(routine);
    return known->second;
  };
  for (const Program::MicroBatch& micro_batch : program.micro_batches) {
    between_steps.push_back(of_step(micro_batch.first));
    if (!micro_batch.next.instructions.empty()) of_step(micro_batch.next, true);
  }
  std::vector<std::size_t> ends_of_pipeline;
  if (program.pipeline) {
    // What is live depends on the entries before; once that comes again, so do the places.
    std::map<std::pair<std::int32_t, std::set<BufferId>>, std::size_t> known;
    for (const PipelineSteps::Step& step : program.pipeline->steps) {
      std::set<BufferId> live;
      std::optional<std::size_t> before;
      for (const PipelineSteps::Entry& entry : step.entries) {
        const Routine& routine = program.pipeline->routines[static_cast<std::size_t>(entry.routine)];
        const auto [found, is_new] = known.try_emplace({entry.routine, live}, 0);
        if (is_new) found->second = add(routine);
        std::vector<std::size_t>& list = before ? stretches[*before].followers : between_steps;
        if (std::find(list.begin(), list.end(), found->second) == list.end()) list.push_back(found->second);
        before = found->second;
        for_each_change(routine, [&](BufferId buffer, bool is_allocated) {
          is_allocated ? static_cast<void>(live.insert(buffer)) : static_cast<void>(live.erase(buffer));
        });
      }
      if (before) ends_of_pipeline.push_back(*before);
    }
  }
  const std::size_t update = of_step(program.update);
  for (const std::size_t end : ends_of_pipeline) stretches[end].followers.push_back(update);
  for (const Routine& routine : program.evaluations) between_steps.push_back(add(routine));
  if (!program.agree_evaluation.instructions.empty()) between_steps.push_back(add(program.agree_evaluation));
  if (program.generation) {
    between_steps.push_back(add(program.generation->prompt));
    between_steps.push_back(add(program.generation->token));
  }
  std::vector<std::pair<std::size_t, std::size_t>> predictions;  ///< and what releases them
  if (program.prediction) {
    for (const PredictionRoutines::Batch& batch : program.prediction->batches) {
      between_steps.push_back(add(batch.predict));
      predictions.emplace_back(between_steps.back(), add(batch.release));
    }
  }

  for (std::size_t evaluation = update + 1; evaluation < stretches.size(); ++evaluation)
    stretches[evaluation].followers = between_steps;
  for (const auto& [predict, release] : predictions) stretches[predict].followers = {release};
  stretches[load].followers = between_steps;
  stretches[refresh].followers = between_steps;
  stretches[update].followers = between_steps;
  // Any size may stand behind any other.
  if (program.micro_batches.empty()) return stretches;
  const bool accumulates = !program.micro_batches.front().next.instructions.empty();
  const auto routines_of = [&](const StepItem& item) {
    std::vector<std::size_t> routines;
    if (!item.is_pass()) return std::vector{of_step(routine_of(program, item), item.is_of_further)};
    for (const Program::MicroBatch& micro_batch : program.micro_batches)
      routines.push_back(of_step(routine_of(micro_batch, item), item.is_of_further));
    return routines;
  };
  for (std::int64_t num_micro_batches = 1; num_micro_batches <= (accumulates ? 3 : 1); ++num_micro_batches) {
    std::vector<std::size_t> before;
    for_each_step_item(program, num_micro_batches, [&](const StepItem& item) {
      const std::vector<std::size_t> behind = routines_of(item);
      for (const std::size_t routine : before) {
        std::vector<std::size_t>& followers = stretches[routine].followers;
        for (const std::size_t follower : behind)
          if (std::find(followers.begin(), followers.end(), follower) == followers.end()) followers.push_back(follower);
      }
      before = behind;
    });
  }
  return stretches;
}

/// What is live after a routine.
std::vector<char> live_at_end(const Stretch& stretch) {
  std::vector<char> live = stretch.live_at_start;
  for_each_change(*stretch.routine, [&](BufferId buffer, bool is_allocated) { live[buffer] = is_allocated ? 1 : 0; });
  return live;
}

/// Carries what is live from routine to routine until nothing new comes in.
void spread(std::vector<Stretch>& stretches) {
  std::vector<std::size_t> waiting;
  for (std::size_t i = stretches.size(); i-- > 0;) waiting.push_back(i);
  while (!waiting.empty()) {
    const std::size_t current = waiting.back();
    waiting.pop_back();
    const std::vector<char> live = live_at_end(stretches[current]);
    for (const std::size_t follower : stretches[current].followers) {
      std::vector<char>& at_start = stretches[follower].live_at_start;
      bool grows = false;
      for (std::size_t b = 0; b < live.size(); ++b) {
        if (live[b] == 0 || at_start[b] != 0) continue;
        at_start[b] = 1;
        grows = true;
      }
      if (grows) waiting.push_back(follower);
    }
  }
}

}  // namespace

BufferLifetimes find_lifetimes(const Program& program) {
  std::vector<Stretch> stretches = stretches_of(program);
  spread(stretches);
  std::vector<std::vector<LiveInterval>> intervals(program.buffers.size());
  const auto end_life = [&](std::size_t buffer, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    std::vector<LiveInterval>& lives = intervals[buffer];
    if (!lives.empty() && lives.back().end == begin)
      lives.back().end = end;
    else
      lives.push_back({begin, end});
  };
  BufferLifetimes lifetimes;
  std::int64_t time = 0;
  constexpr std::int64_t dead = -1;
  std::vector<std::int64_t> live_since(program.buffers.size());
  for (const Stretch& stretch : stretches) {
    lifetimes.cuts.push_back(time);
    for (std::size_t b = 0; b < live_since.size(); ++b) live_since[b] = stretch.live_at_start[b] != 0 ? time : dead;
    for (const Instruction& instruction : stretch.routine->instructions) {
      ++time;
      if (instruction.kind == Kind::run) continue;
      std::int64_t& since = live_since[instruction.index];
      if (instruction.kind == Kind::allocate) {
        require_internal(since == dead, "a buffer is allocated where it is not live");
        since = time;
      } else {
        require_internal(since != dead, "a buffer is released where it is live");
        end_life(static_cast<std::size_t>(instruction.index), since, time);
        since = dead;
      }
    }
    ++time;
    for (std::size_t b = 0; b < live_since.size(); ++b)
      if (live_since[b] != dead) end_life(b, live_since[b], time);
  }

  for (std::size_t b = 0; b < intervals.size(); ++b) {
    if (intervals[b].empty()) continue;
    lifetimes.buffers.push_back(static_cast<BufferId>(b));
    const std::int64_t num_bytes = round_to_blocks(program.buffers[b].num_bytes);
    lifetimes.items.push_back({num_bytes, std::move(intervals[b])});
  }
  return lifetimes;
}

namespace {

bool is_placeable(const BufferLifetimes& lifetimes) {
  std::int64_t sum = 0;
  for (const PlacedItem& item : lifetimes.items)
    if (__builtin_add_overflow(sum, item.num_bytes, &sum) || sum >= 4 * most_bytes) return false;
  return true;
}

Placement unplaceable(const Program& program) {
  return {.offsets = std::vector<std::int64_t>(program.buffers.size(), 0),
          .segment_bytes = round_up(std::numeric_limits<std::int64_t>::max(), least_block_bytes)};
}

/// Persistent buffers one after the other, from 0 on; answers where they end.
std::int64_t place_persistent(const BufferLifetimes& lifetimes, const std::vector<char>& is_persistent,
                              Placement& placement) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < lifetimes.items.size(); ++i) {
    if (is_persistent[lifetimes.buffers[i]] == 0) continue;
    placement.offsets[lifetimes.buffers[i]] = end;
    end += lifetimes.items[i].num_bytes;
  }
  return end;
}

/// All others, from `begin` on; answers where they end.
std::int64_t place_others(const BufferLifetimes& lifetimes, const std::vector<char>& is_persistent, std::int64_t begin,
                          Placement& placement) {
  std::vector<BufferId> buffers;
  std::vector<PlacedItem> items;
  for (std::size_t i = 0; i < lifetimes.items.size(); ++i) {
    if (is_persistent[lifetimes.buffers[i]] != 0) continue;
    buffers.push_back(lifetimes.buffers[i]);
    items.push_back(lifetimes.items[i]);
  }
  const ItemPlaces places = place_items(items, lifetimes.cuts);
  for (std::size_t k = 0; k < buffers.size(); ++k) placement.offsets[buffers[k]] = begin + places.offsets[k];
  return begin + places.total_bytes;
}

}  // namespace

void place(Program& program) {
  program.placement = unplaceable(program);
  const BufferLifetimes lifetimes = find_lifetimes(program);
  if (!is_placeable(lifetimes)) return;
  const std::vector<char> is_persistent = persistent_buffers(program);
  const std::int64_t persistent_bytes = place_persistent(lifetimes, is_persistent, *program.placement);
  program.placement->segment_bytes = place_others(lifetimes, is_persistent, persistent_bytes, *program.placement);
}

Placement place_transient(const Program& program) {
  Placement placement = unplaceable(program);
  const BufferLifetimes lifetimes = find_lifetimes(program);
  if (is_placeable(lifetimes))
    placement.segment_bytes = place_others(lifetimes, persistent_buffers(program), 0, placement);
  return placement;
}

}  // namespace trainer
