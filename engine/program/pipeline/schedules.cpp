#include "engine/program/pipeline/schedules.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"

namespace trainer {
namespace {

using ItemKind = PipelineItem::Kind;

/// The forwards, or backwards, of a stage in their order: in groups of as many micro-batches as there are stages, all
/// chunks of a group one after the other.
std::vector<std::pair<std::int32_t, std::int32_t>> by_groups(const PipelineShape& shape, std::int32_t stage,
                                                             bool is_backward) {
  std::vector<std::pair<std::int32_t, std::int32_t>> order;  // chunk, micro-batch
  const std::int32_t per_stage = shape.num_chunks / shape.num_stages;
  for (std::int32_t group = 0; group < shape.num_micro_batches; group += shape.num_stages)
    for (std::int32_t i = 0; i < per_stage; ++i) {
      const std::int32_t chunk = (is_backward ? per_stage - 1 - i : i) * shape.num_stages + stage;
      const std::int32_t end = std::min(group + shape.num_stages, shape.num_micro_batches);
      for (std::int32_t micro_batch = group; micro_batch < end; ++micro_batch) order.emplace_back(chunk, micro_batch);
    }
  return order;
}

/// Forwards that a stage begins with.
std::int32_t num_warming_up(const PipelineShape& shape, std::int32_t stage) {
  const std::int32_t behind = shape.num_stages - 1 - stage, per_stage = shape.num_chunks / shape.num_stages;
  switch (shape.order) {
    case PipelineOrder::gpipe:
      return shape.num_micro_batches * per_stage;
    case PipelineOrder::interleaved:
      return 2 * behind + (per_stage - 1) * shape.num_stages;
    case PipelineOrder::one_forward_one_backward:
    case PipelineOrder::zero_bubble:
      break;
  }
  return behind;
}

/// `extra`: further forwards ahead.
std::vector<PipelineItem> items_of_stage(const PipelineShape& shape, std::int32_t stage, std::int32_t extra) {
  const auto forwards = by_groups(shape, stage, false), backwards = by_groups(shape, stage, true);
  const std::size_t total = forwards.size();
  const std::size_t ahead = std::min(total, static_cast<std::size_t>(num_warming_up(shape, stage) + extra));
  const std::size_t num_delayed = static_cast<std::size_t>(stage);
  std::vector<PipelineItem> items;
  const auto add = [&](ItemKind kind, const std::pair<std::int32_t, std::int32_t>& of) {
    items.push_back({.kind = kind, .chunk = of.first, .micro_batch = of.second});
  };
  std::size_t forward = 0, weights = 0;
  while (forward < ahead) add(ItemKind::forward, forwards[forward++]);
  for (std::size_t backward = 0; backward < total; ++backward) {
    if (forward < total) add(ItemKind::forward, forwards[forward++]);
    add(ItemKind::backward, backwards[backward]);
    if (shape.splits_backward() && backward >= num_delayed) add(ItemKind::weight_gradients, backwards[weights++]);
  }
  while (shape.splits_backward() && weights < total) add(ItemKind::weight_gradients, backwards[weights++]);
  return items;
}

}  // namespace

double ItemTimes::of(const PipelineItem& item) const {
  const auto chunk = static_cast<std::size_t>(item.chunk);
  if (item.kind == ItemKind::forward) return forward[chunk];
  const bool is_first = item.micro_batch == 0 && !first_backward.empty();
  if (item.kind == ItemKind::backward) return (is_first ? first_backward : backward)[chunk];
  return (is_first ? first_weight_gradients : weight_gradients)[chunk];
}

bool time_items(const PipelineShape& shape, const std::vector<std::vector<std::int32_t>>& reads, const ItemTimes& times,
                double message, std::vector<std::vector<PipelineItem>>& items) {
  const auto num_chunks = static_cast<std::size_t>(shape.num_chunks);
  const auto num_micro_batches = static_cast<std::size_t>(shape.num_micro_batches);
  std::vector<std::vector<std::int32_t>> read_by(num_chunks);
  for (std::size_t chunk = 0; chunk < num_chunks; ++chunk)
    for (const std::int32_t source : reads[chunk])
      read_by[static_cast<std::size_t>(source)].push_back(static_cast<std::int32_t>(chunk));
  constexpr double open = -1;
  const auto none_done = std::vector(num_chunks, std::vector(num_micro_batches, open));
  std::vector<std::vector<double>> forward_ends = none_done, backward_ends = none_done;
  /// When all that an item reads is there; `open` where something is not.
  const auto ready_at = [&](const PipelineItem& item) {
    const auto chunk = static_cast<std::size_t>(item.chunk), micro_batch = static_cast<std::size_t>(item.micro_batch);
    double ready = 0;
    const auto wait = [&](double end, std::int32_t from) {
      if (end < 0) return false;
      const bool is_sent = shape.stage_of(from) != shape.stage_of(item.chunk);
      ready = std::max(ready, end + (is_sent ? message : 0));
      return true;
    };
    if (item.kind == ItemKind::forward) {
      for (const std::int32_t source : reads[chunk])
        if (!wait(forward_ends[static_cast<std::size_t>(source)][micro_batch], source)) return open;
      return ready;
    }
    if (!wait(forward_ends[chunk][micro_batch], item.chunk)) return open;
    if (item.kind == ItemKind::weight_gradients && !wait(backward_ends[chunk][micro_batch], item.chunk)) return open;
    for (const std::int32_t reader : read_by[chunk])
      if (!wait(backward_ends[static_cast<std::size_t>(reader)][micro_batch], reader)) return open;
    return ready;
  };
  std::vector<std::size_t> next(items.size(), 0);
  std::vector<double> idle_since(items.size(), 0);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t stage = 0; stage < items.size(); ++stage) {
      for (; next[stage] < items[stage].size(); ++next[stage]) {
        PipelineItem& item = items[stage][next[stage]];
        const double ready = ready_at(item);
        if (ready < 0) break;
        item.begin = std::max(ready, idle_since[stage]);
        item.end = idle_since[stage] = item.begin + times.of(item);
        const auto chunk = static_cast<std::size_t>(item.chunk), batch = static_cast<std::size_t>(item.micro_batch);
        if (item.kind == ItemKind::forward) forward_ends[chunk][batch] = item.end;
        if (item.kind == ItemKind::backward) backward_ends[chunk][batch] = item.end;
        goes_on = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < items.size(); ++stage)
    if (next[stage] < items[stage].size()) return false;
  return true;
}

std::vector<std::vector<PipelineItem>> pipeline_items(const PipelineShape& shape,
                                                      const std::vector<std::vector<std::int32_t>>& reads) {
  require_internal(shape.num_stages >= 1 && shape.num_chunks % shape.num_stages == 0 && shape.num_micro_batches >= 0,
                   "each stage has as many chunks");
  const auto of_each = [&](double units) { return std::vector(static_cast<std::size_t>(shape.num_chunks), units); };
  const ItemTimes units{
      .forward = of_each(1), .backward = of_each(shape.splits_backward() ? 1 : 2), .weight_gradients = of_each(1)};
  std::vector<std::vector<PipelineItem>> items(static_cast<std::size_t>(shape.num_stages));
  // Where micro-batches do not fill their groups, or skips pass stages, some need more forwards ahead.
  const std::int32_t most = shape.num_micro_batches * shape.num_chunks / shape.num_stages;
  for (std::int32_t extra = 0; extra <= most; ++extra) {
    for (std::int32_t stage = 0; stage < shape.num_stages; ++stage)
      items[static_cast<std::size_t>(stage)] = items_of_stage(shape, stage, extra);
    if (time_items(shape, reads, units, 0, items)) return items;
  }
  throw InternalError("internal error: a pipeline's stages wait for each other");
}

}  // namespace trainer
