#include "engine/plan/search/kept_choice.h"

#include <span>
#include <utility>

#include "engine/memory/rounding.h"
#include "engine/program/compile.h"

namespace trainer {

std::optional<KeptChoice> KeptChoice::make(const Candidate& low, const Candidate& high, const DeviceModel& device) {
  KeptChoice choice;
  choice.checkpointing_ = high.experiment.train.checkpointing;
  choice.cheap_ = high.experiment.memory.recompute_cheap;
  choice.in_place_ = high.experiment.memory.in_place;
  TrainingGraph at_low = make_training_graph(low.experiment, low.data, device);
  choice.graph_ = make_training_graph(high.experiment, high.data, device).graph;
  const Graph &small = at_low.graph, &large = choice.graph_;
  if (small.values.size() != large.values.size() || small.nodes.size() != large.nodes.size()) return std::nullopt;
  for (std::size_t v = 0; v < large.values.size(); ++v) {
    const std::optional<SizedBytes> bytes =
        sized_bytes(small.values[v].type, small.batch_size, large.values[v].type, large.batch_size);
    if (!bytes) return std::nullopt;
    choice.bytes_.push_back(*bytes);
  }
  choice.problem_ = make_recompute_problem(choice.graph_, device, choice.options());
  for (const RecomputeProblem::Value& value : choice.problem_.values) choice.is_used_.push_back(value.num_bytes > 0);
  choice.kept_ = choice.kept_at(large.batch_size);
  if (choice.kept_at(small.batch_size) != choice.kept_) return std::nullopt;
  choice.is_alike_throughout_ = choice.are_comparisons_alike(small.batch_size, large.batch_size);
  return choice;
}

std::vector<bool> KeptChoice::kept_at(std::int64_t batch_size) {
  for (std::size_t v = 0; v < bytes_.size(); ++v)
    if (is_used_[v]) problem_.values[v].num_bytes = round_to_blocks(bytes_[v].at(batch_size));
  return kept_values(problem_, graph_, options());
}

/// Makes the choice once more, and looks at each comparison of sizes in it. In whole blocks a size is at least its
/// bytes and less than a block more, which for a multiple of a block is nothing. So where the bytes of one side, which
/// are linear in the batch size, are larger at both ends by as much as rounding may add to the other side, they are in
/// between.
bool KeptChoice::are_comparisons_alike(std::int64_t low, std::int64_t high) {
  bool are_alike = true;
  const auto added_by_rounding = [&](const SizedBytes& bytes) {
    const bool is_exact = bytes.per_sample % least_block_bytes == 0 && bytes.fixed % least_block_bytes == 0 &&
                          (bytes.per_sample > 0 || bytes.fixed > 0);
    return is_exact ? 0 : least_block_bytes;
  };
  RecomputeOptions options = this->options();
  options.costs_less = [&](std::span<const std::int32_t> others, std::int32_t value) {
    std::int64_t difference_at_low = -bytes_[value].at(low), difference_at_high = -bytes_[value].at(high), added = 0;
    for (const std::int32_t other : others) {
      difference_at_low += bytes_[other].at(low);
      difference_at_high += bytes_[other].at(high);
      added += added_by_rounding(bytes_[other]);
    }
    const std::int64_t added_to_value = added_by_rounding(bytes_[value]);
    const bool is_more = difference_at_low >= added_to_value && difference_at_high >= added_to_value;
    const bool is_less = difference_at_low + added < 0 && difference_at_high + added < 0;
    are_alike = are_alike && (is_more || is_less);
    return is_less;
  };
  return kept_values(problem_, graph_, options) == kept_ && are_alike;
}

}  // namespace trainer
