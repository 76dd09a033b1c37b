#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "datasets/batch_reader.h"
#include "engine/memory/rounding.h"
#include "engine/ops/op_definition.h"
#include "engine/train/executor.h"

// How an executor feeds steps: Note [Steps at once] in executor.h.

namespace trainer {
namespace {

/// What a device reads from the host at its beginning delays a step, so a batch that takes longer than starting a
/// kernel does, at some 50 GB/s, is staged instead.
constexpr std::int64_t most_fed_bytes = std::int64_t{64} << 10;

std::int64_t aligned(std::int64_t num_bytes) { return round_up(num_bytes, 64); }

/// To the host's memory, or to other ranks.
bool carries_tensors(const Program& program) {
  return std::any_of(program.calls.begin(), program.calls.end(), [](const OpCall& call) {
    return definition_of(call.op.kind).role == Role::transfer || communicates(call.op);
  });
}

}  // namespace

void Executor::prepare_feed(std::span<const BufferId> results) {
  start_fed();
  fed_ = {};
  if (program_.pipeline) return;
  StepFeedShape shape{.num_places = most_steps_queued};
  for (const Program::MicroBatch& micro_batch : program_.micro_batches) {
    std::int64_t input_bytes = 0;
    for (const BufferId field : micro_batch.first.fields) input_bytes += aligned(num_bytes_of(field));
    shape.input_bytes = std::max(shape.input_bytes, input_bytes);
  }
  if (!pass_counts_.can_replay || !pass_counts_.obstacle.empty() || shape.input_bytes > most_fed_bytes ||
      carries_tensors(program_))
    return;
  fed_.results.assign(results.begin(), results.end());
  for (const BufferId result : results) shape.result_bytes += num_bytes_of(result);
  fed_.feed = device_.make_step_feed(shape);
}

std::int64_t Executor::feed(const StepScalars& scalars, const HostBatch& batch) {
  if (!fed_.feed || !pass_counts_.can_replay || !pass_counts_.obstacle.empty()) return -1;
  const Sequence& sequence = sequences_[laid_out_];
  if (!layout_keeps_segments_ || has_leftovers() || sequence.operands.empty()) return -1;
  bool has_same_addresses = false;
  FedLayout& layout = find_fed(sequence, has_same_addresses);
  if (!has_same_addresses) return -1;
  if (!layout.one) {
    layout.one = record([&] { queue_fed_step(layout); }, pass_counts_.obstacle);
    if (!layout.one) {
      pass_counts_.can_replay = !pass_counts_.obstacle.empty();
      return -1;
    }
  }
  const std::int64_t number = fed_.num_fed++;
  const auto place = static_cast<int>(number % most_steps_queued);
  const Routine& routine = *layout.routines.front();
  fed_.feed->scalars(place) = scalars;
  std::byte* input = fed_.feed->input(place);
  for (std::size_t f = 0; f < routine.fields.size(); ++f) {
    const std::int64_t num_bytes = num_bytes_of(routine.fields[f]);
    std::memcpy(input, batch.fields[f], static_cast<std::size_t>(num_bytes));
    input += aligned(num_bytes);
  }
  ++pass_counts_.total;
  ++pass_counts_.replayed;
  if (++fed_.num_waiting == steps_at_once) start_fed();
  return number;
}

/// The fed step of these routines, now with the addresses of the sequence; `has_same_addresses` if it had them before.
/// Steps of another layout that wait are started.
Executor::FedLayout& Executor::find_fed(const Sequence& sequence, bool& has_same_addresses) {
  const auto has_routines = [&](const FedLayout& layout) {
    return std::equal(sequence.layouts.begin(), sequence.layouts.end(), layout.routines.begin(), layout.routines.end(),
                      [](const Layout& one, const Routine* routine) { return one.routine == routine; });
  };
  auto found = std::find_if(fed_.layouts.begin(), fed_.layouts.end(), has_routines);
  const std::span<void* const> fields = fields_of(sequence, sequence.layouts.front());
  has_same_addresses = found != fed_.layouts.end() && sequence.operands == found->operands &&
                       std::equal(fields.begin(), fields.end(), found->fields.begin(), found->fields.end());
  const auto position = static_cast<std::size_t>(found - fed_.layouts.begin());
  if (!has_same_addresses || position != fed_.current) start_fed();
  fed_.current = position;
  if (has_same_addresses) return *found;
  if (found == fed_.layouts.end()) found = fed_.layouts.emplace(found);
  *found = FedLayout();
  found->operands = sequence.operands;
  found->fields.assign(fields.begin(), fields.end());
  for (const Layout& layout : sequence.layouts) found->routines.push_back(layout.routine);
  return *found;
}

/// The laid-out routines, with their beginning and end, within a recording.
void Executor::queue_fed_step(const FedLayout& layout) {
  const Routine& routine = *layout.routines.front();
  std::vector<FedInput> inputs;
  std::int64_t offset = 0;
  for (std::size_t f = 0; f < routine.fields.size(); ++f) {
    const std::int64_t num_bytes = num_bytes_of(routine.fields[f]);
    inputs.push_back({layout.fields[f], offset, num_bytes});
    offset += aligned(num_bytes);
  }
  fed_.feed->begin_step(inputs);
  queue_branched_calls(0, layout.routines.size(), {});
  std::array<FedResult, 2> results;
  require_internal(fed_.results.size() <= results.size(), "a step has at most two results");
  std::transform(fed_.results.begin(), fed_.results.end(), results.begin(), [&](BufferId result) {
    return FedResult{live_.address(result), num_bytes_of(result)};
  });
  fed_.feed->end_step(std::span(results).first(fed_.results.size()));
}

void Executor::start_fed() {
  const int num_steps = std::exchange(fed_.num_waiting, 0);
  if (num_steps == 0) return;
  FedLayout& layout = fed_.layouts[fed_.current];
  // Steps come to be so many when one is fed, and its layout is then the executor's.
  if (num_steps == steps_at_once && !layout.several && !layout.is_recorded_alone) {
    std::string obstacle;
    const auto queue_all = [&] {
      for (int i = 0; i < steps_at_once; ++i) queue_fed_step(layout);
    };
    layout.several = record(queue_all, obstacle);
    layout.is_recorded_alone = !layout.several;
  }
  if (num_steps == steps_at_once && layout.several) return layout.several->replay();
  for (int i = 0; i < num_steps; ++i) layout.one->replay();
}

void Executor::drop_fed() noexcept { fed_.num_fed -= std::exchange(fed_.num_waiting, 0); }

const std::byte* Executor::fed_results(std::int64_t number) {
  return fed_.feed->results(static_cast<int>(number % most_steps_queued));
}

}  // namespace trainer
