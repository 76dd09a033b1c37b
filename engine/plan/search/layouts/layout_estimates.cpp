#include "engine/plan/search/layouts/layout_estimates.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/batch_part.h"
#include "engine/memory/rounding.h"
#include "engine/ops/send_receive.h"
#include "engine/program/compile.h"

namespace trainer {
namespace {

std::int32_t num_chunks_of(const Experiment& experiment, const Layout& layout) {
  return static_cast<std::int32_t>(layout.pipeline * chunks_of_rank(with_layout(experiment, layout).parallel));
}

PipelineShape shape_of(const Layout& layout, std::int32_t num_chunks, std::int64_t num_micro_batches) {
  return {.num_stages = static_cast<std::int32_t>(layout.pipeline),
          .num_chunks = num_chunks,
          .num_micro_batches = static_cast<std::int32_t>(num_micro_batches),
          .order = layout.schedule};
}

RankLayout ranks_of_stage(const Layout& layout, std::int64_t stage) {
  const RankLayout first{.num_data = layout.data, .num_stages = layout.pipeline, .num_tensor = layout.tensor};
  return first.of_rank(first.rank_of_stage(stage));
}

/// What it adds where part of `num_bytes` is each rank's, and all others'.
double seconds_of_parts(const RankGroup& ranks, std::int64_t num_bytes, int num_rounds, const RankLinks& links) {
  if (num_bytes == 0 || ranks.count < 2) return 0;
  const std::int64_t sent = num_bytes / ranks.count * (ranks.count - 1) * num_rounds;
  return exchange_seconds({.ranks = ranks, .sent_bytes = sent, .num_rounds = num_rounds}, links).value_or(0);
}

/// Of a sum over ranks that share a batch: of parts alone, or until each has all of it.
int rounds_of_sums(const Layout& layout) { return layout.shard == Shard::none ? 2 : 1; }

/// `make`: where it is not known; a problem is thrown, the same each time.
template <typename Key, typename Value>
const Value& known(std::map<Key, std::variant<Value, ConfigError>>& all, const Key& key,
                   const std::function<Value()>& make) {
  auto found = all.find(key);
  if (found == all.end()) {
    try {
      found = all.emplace(key, make()).first;
    } catch (const ConfigError& error) {
      found = all.emplace(key, error).first;
    }
  }
  if (const auto* const problem = std::get_if<ConfigError>(&found->second)) throw *problem;
  return std::get<Value>(found->second);
}

}  // namespace

/// What one stage's ranks compute, hold and tell each other.
struct LayoutEstimates::Stage {
  RankGroup ranks;              ///< that share batches
  std::int64_t held_bytes = 0;  ///< throughout
  std::int64_t gradient_bytes = 0, gathered_bytes = 0;
  double tied_seconds = 0;  ///< in which gradients are added up with other stages
};

LayoutEstimates::LayoutEstimates(Experiment experiment, const DataDescription& data, const DeviceModel& device,
                                 const MachineRates& rates)
    : experiment_(std::move(experiment)), data_(data), device_(device), rates_(rates) {}

const ModelCosts& LayoutEstimates::costs_of(std::int64_t tensor, std::int64_t num_samples, bool splits_backward) {
  return known<std::tuple<std::int64_t, std::int64_t, bool>, ModelCosts>(
      costs_, {tensor, num_samples, splits_backward}, [&] {
        ++num_compiled_;
        return model_costs(with_layout(experiment_, {.tensor = tensor}), data_, device_, rates_, num_samples,
                           splits_backward);
      });
}

const LayoutEstimates::Cut& LayoutEstimates::cut_of(const ModelCosts& costs, const Layout& layout,
                                                    std::int64_t num_samples) {
  const std::int32_t num_chunks = num_chunks_of(experiment_, layout);
  const auto num_stages = static_cast<std::int32_t>(layout.pipeline);
  return known<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, Cut>(
      cuts_, {layout.tensor, num_samples, layout.pipeline, num_chunks}, [&] {
        Cut cut;
        cut.cut = cut_into_stages(costs.forward, with_layout(experiment_, layout).parallel);
        if (num_stages > 1) cut.messages = stage_messages(costs.forward, cut.cut, num_stages);
        cut.chunks_of_parameters = stages_of_parameters(costs.forward, cut.cut, num_chunks);
        cut.stages_of_parameters = stages_of_parameters(costs.forward, cut.cut, num_stages);
        return cut;
      });
}

std::vector<LayoutEstimates::Stage> LayoutEstimates::stages_of(const ModelCosts& costs, const Cut& cut,
                                                               const Layout& layout) const {
  std::vector<Stage> stages(static_cast<std::size_t>(layout.pipeline));
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    stages[stage].ranks = ranks_of_stage(layout, static_cast<std::int64_t>(stage)).data_group();
  const auto part = [&](std::int64_t num_bytes, bool is_cut) { return is_cut ? num_bytes / layout.data : num_bytes; };
  const bool shares_state = layout.shard != Shard::none, shares_weights = layout.shard == Shard::parameters;
  for (std::size_t p = 0; p < costs.parameters.size(); ++p) {
    const ParameterCosts& parameter = costs.parameters[p];
    const bool is_trained = parameter.gradient > 0;
    const std::int64_t held = part(parameter.state, shares_state) + part(parameter.copy, shares_weights) +
                              part(parameter.weight, shares_weights || (shares_state && parameter.copy > 0));
    const std::vector<std::int32_t>& of_parameter = cut.stages_of_parameters[p];
    for (const std::int32_t number : of_parameter) {
      Stage& stage = stages[static_cast<std::size_t>(number)];
      stage.held_bytes += held;
      stage.gradient_bytes += parameter.gradient;
      if (is_trained) stage.gathered_bytes += parameter.gathered();
      if (of_parameter.size() < 2) continue;
      // Pair by pair, there and back, which all of them wait for (append_sums_of_stages in program/update_routine.cpp).
      for (std::size_t i = 0; i + 1 < of_parameter.size(); ++i) {
        const std::int64_t first = ranks_of_stage(layout, of_parameter[i]).rank;
        const RankGroup both{2, first, ranks_of_stage(layout, of_parameter[i + 1]).rank - first};
        const double once = seconds_of_parts(both, part(parameter.gradient, shares_state), 2, rates_.links);
        stage.tied_seconds += (i + 2 < of_parameter.size() ? 2 : 1) * once;
      }
    }
  }
  return stages;
}

double LayoutEstimates::message_seconds(const ModelCosts& costs, const Cut& cut, const Layout& layout) const {
  double seconds = 0;
  for (const StageMessage& message : cut.messages) {
    const auto rank_of = [&](std::int32_t chunk) { return ranks_of_stage(layout, chunk % layout.pipeline).rank; };
    const PeerAttributes attributes =
        peer_attributes(rank_of(message.from), rank_of(message.to), 0, message.returns_gradient);
    const TensorType& type = costs.forward.values[static_cast<std::size_t>(message.value)].type;
    seconds += exchange_seconds(exchange_of(send_op(type, attributes)), rates_.links).value_or(0);
  }
  return cut.messages.empty() ? 0 : seconds / static_cast<double>(cut.messages.size());
}

namespace {

/// What items of one chunk take, and keep.
struct ChunkCosts {
  double forward = 0;
  BackwardCosts first, further;
  std::int64_t kept_bytes = 0, gradient_bytes = 0, gathered_bytes = 0;
};

std::vector<ChunkCosts> chunk_costs(const ModelCosts& costs, const StageCut& cut,
                                    const std::vector<std::vector<std::int32_t>>& chunks_of_parameters) {
  std::vector<ChunkCosts> chunks(static_cast<std::size_t>(cut.num_chunks()));
  for (std::size_t l = 0; l < costs.layers.size(); ++l) {
    const LayerCosts& layer = costs.layers[l];
    ChunkCosts& chunk = chunks[static_cast<std::size_t>(cut.chunk_of(static_cast<LayerId>(l)))];
    chunk.forward += layer.forward;
    chunk.first += layer.first;
    chunk.further += layer.further;
    chunk.kept_bytes += layer.kept_bytes;
  }
  for (std::size_t p = 0; p < costs.parameters.size(); ++p)
    for (const std::int32_t number : chunks_of_parameters[p]) {
      ChunkCosts& chunk = chunks[static_cast<std::size_t>(number)];
      chunk.gradient_bytes += costs.parameters[p].gradient;
      if (costs.parameters[p].gradient > 0) chunk.gathered_bytes += costs.parameters[p].gathered();
    }
  return chunks;
}

/// Adds what ranks that have parts of gradients, or of weights too, tell each other in each item.
void add_exchanges(ChunkCosts& chunk, const Layout& layout, bool overlaps, const RankGroup& ranks,
                   const RankLinks& links) {
  if (layout.shard < Shard::gradients) return;
  const double sum = seconds_of_parts(ranks, chunk.gradient_bytes, 1, links);
  const double gather = layout.shard == Shard::parameters ? seconds_of_parts(ranks, chunk.gathered_bytes, 1, links) : 0;
  const auto beside = [&](double computing, double exchanges) {
    return overlaps ? std::max(computing, exchanges) : computing + exchanges;
  };
  chunk.forward = beside(chunk.forward, gather);
  const bool is_split = chunk.first.weight_gradients > 0;
  chunk.first.backward = beside(chunk.first.backward, is_split ? gather : gather + sum);
  if (is_split) chunk.first.weight_gradients = beside(chunk.first.weight_gradients, sum);
  chunk.further = chunk.first;  // each micro-batch starts whole gradients of its own
}

/// By stage, the most bytes that micro-batches on their way keep, with the gradients that those before them have left;
/// `share_of_gradients`: a rank's.
std::vector<std::int64_t> kept_bytes(const std::vector<std::vector<PipelineItem>>& items,
                                     const std::vector<ChunkCosts>& chunks, double share_of_gradients) {
  std::vector<std::int64_t> most(items.size(), 0);
  for (std::size_t stage = 0; stage < items.size(); ++stage) {
    std::int64_t now = 0;
    for (const PipelineItem& item : items[stage]) {
      const ChunkCosts& chunk = chunks[static_cast<std::size_t>(item.chunk)];
      if (item.kind == PipelineItem::Kind::forward) now += chunk.kept_bytes;
      if (item.kind == PipelineItem::Kind::backward) now -= chunk.kept_bytes;
      if (item.kind == PipelineItem::Kind::backward && item.micro_batch == 0)
        now += static_cast<std::int64_t>(share_of_gradients * static_cast<double>(chunk.gradient_bytes));
      most[stage] = std::max(most[stage], now);
    }
  }
  return most;
}

ItemTimes item_times(const std::vector<ChunkCosts>& chunks) {
  ItemTimes times;
  for (const ChunkCosts& chunk : chunks) {
    times.forward.push_back(chunk.forward);
    times.backward.push_back(chunk.further.backward);
    times.weight_gradients.push_back(chunk.further.weight_gradients);
    times.first_backward.push_back(chunk.first.backward);
    times.first_weight_gradients.push_back(chunk.first.weight_gradients);
  }
  return times;
}

}  // namespace

double LayoutEstimates::update_seconds(const ModelCosts& costs, const std::vector<Stage>& stages, const Layout& layout,
                                       bool sums_gradients) const {
  std::int64_t all_gradients = 0;
  for (const ParameterCosts& parameter : costs.parameters) all_gradients += parameter.gradient;
  const std::int64_t num_sharing = layout.shard == Shard::none ? 1 : layout.data;
  double computing = 0, exchanges = 0;
  for (const Stage& stage : stages) {
    const double share = static_cast<double>(stage.gradient_bytes) / static_cast<double>(all_gradients);
    computing = std::max(computing, share * costs.update_seconds / static_cast<double>(num_sharing));
    double told = stage.tied_seconds;
    if (sums_gradients)
      told += seconds_of_parts(stage.ranks, stage.gradient_bytes, rounds_of_sums(layout), rates_.links);
    if (layout.shard == Shard::optimizer || layout.shard == Shard::gradients)
      told += seconds_of_parts(stage.ranks, stage.gathered_bytes, 1, rates_.links);
    exchanges = std::max(exchanges, told);
  }
  return computing + exchanges;
}

LayoutEstimate LayoutEstimates::of(const Layout& layout) {
  const RunSchedule schedule(with_layout(experiment_, {}), data_);
  const std::int64_t num_samples =
      part_of_batch(part_of_batch(schedule.batch_size(), layout.data, 0).count, layout.micro_batches, 0).count;
  const std::int64_t num_passes = layout.micro_batches * schedule.step(1).num_micro_batches;
  const PipelineShape shape = shape_of(layout, num_chunks_of(experiment_, layout), num_passes);
  const bool overlaps = experiment_.parallel.overlap;
  const ModelCosts& costs = costs_of(layout.tensor, num_samples, layout.pipeline > 1 && shape.splits_backward());
  const Cut& cut = cut_of(costs, layout, num_samples);
  const std::vector<Stage> stages = stages_of(costs, cut, layout);
  std::vector<ChunkCosts> chunks = chunk_costs(costs, cut.cut, cut.chunks_of_parameters);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
    add_exchanges(chunks[chunk], layout, overlaps, stages[chunk % stages.size()].ranks, rates_.links);
  const std::vector<std::vector<std::int32_t>> reads = chunks_read(shape.num_chunks, cut.messages);
  std::vector<std::vector<PipelineItem>> items = pipeline_items(shape, reads);

  LayoutEstimate estimate;
  const double share_of_gradients = experiment_.memory.update == UpdatePlace::in_backward ? 0.0
                                    : layout.shard < Shard::gradients                     ? 1.0
                                                                      : 1.0 / static_cast<double>(layout.data);
  const std::vector<std::int64_t> kept = kept_bytes(items, chunks, share_of_gradients);
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    estimate.held_bytes = std::max(estimate.held_bytes, stages[stage].held_bytes + kept[stage]);
  // Where there is one micro-batch gradients are added up beside its backward pass.
  const bool sums_once = layout.shard < Shard::gradients, sums_beside = sums_once && overlaps && num_passes == 1;
  if (sums_beside && stages.size() == 1)
    chunks.front().first.backward = std::max(
        chunks.front().first.backward,
        seconds_of_parts(stages.front().ranks, chunks.front().gradient_bytes, rounds_of_sums(layout), rates_.links));
  const double message = message_seconds(costs, cut, layout);
  require_internal(time_items(shape, reads, item_times(chunks), message, items),
                   "stages of a pipeline do not wait for each other for ever");
  double longest = 0;
  for (const std::vector<PipelineItem>& of_stage : items)
    if (!of_stage.empty()) longest = std::max(longest, of_stage.back().end);
  estimate.step_seconds =
      rates_.step_seconds + longest + update_seconds(costs, stages, layout, sums_once && !sums_beside);
  return estimate;
}

}  // namespace trainer
