#include "engine/plan/search/layouts/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "engine/config/fields/enum_choices.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

constexpr std::array most_parts_of_stages = {1, 2, 4, 8};
constexpr std::array all_shards = {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters};
constexpr std::array all_orders = {PipelineOrder::one_forward_one_backward, PipelineOrder::interleaved,
                                   PipelineOrder::zero_bubble, PipelineOrder::gpipe};

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) divisors.push_back(divisor);
  return divisors;
}

/// Numbers of micro-batches for so many stages, of which each has one of `num_samples`; `own`: that of the experiment.
std::set<std::int64_t> micro_batches_for(std::int64_t num_stages, std::int64_t num_samples, std::int64_t own) {
  std::set<std::int64_t> numbers;
  for (const std::int64_t times : most_parts_of_stages) numbers.insert(std::min(times * num_stages, num_samples));
  if (own > 0 && own <= num_samples) numbers.insert(own);
  std::erase_if(numbers, [](std::int64_t number) { return number > most_ranks; });
  return numbers;
}

}  // namespace

Layout layout_of(const ParallelConfig& parallel) {
  Layout layout{.data = parallel.data,
                .pipeline = parallel.pipeline,
                .tensor = parallel.tensor,
                .micro_batches = num_micro_batches(parallel)};
  if (layout.pipeline > 1) layout.schedule = parallel.schedule;
  if (layout.data > 1) layout.shard = parallel.shard;
  return layout;
}

Experiment with_layout(Experiment experiment, const Layout& layout) {
  ParallelConfig& parallel = experiment.parallel;
  parallel.data = layout.data;
  parallel.pipeline = layout.pipeline;
  parallel.tensor = layout.tensor;
  if (layout.pipeline > 1) parallel.schedule = layout.schedule;
  if (num_micro_batches(parallel) != layout.micro_batches) parallel.micro_batches = layout.micro_batches;
  parallel.shard = layout.shard;
  parallel.rank = 0;
  return experiment;
}

std::vector<std::string> layout_overrides(const ParallelConfig& own, const Layout& layout) {
  Experiment changed;
  changed.parallel = own;
  const ParallelConfig parallel = with_layout(changed, layout).parallel;
  std::vector<std::string> overrides;
  const auto set = [&](const char* key, const auto& before, const auto& after, const auto& text) {
    if (before != after) overrides.push_back(fmt::format("parallel.{}={}", key, text));
  };
  set("data", own.data, parallel.data, parallel.data);
  set("pipeline", own.pipeline, parallel.pipeline, parallel.pipeline);
  set("tensor", own.tensor, parallel.tensor, parallel.tensor);
  set("schedule", own.schedule, parallel.schedule, pipeline_order_choices().name_of(parallel.schedule));
  set("micro_batches", own.micro_batches, parallel.micro_batches, parallel.micro_batches);
  set("shard", own.shard, parallel.shard, shard_choices().name_of(parallel.shard));
  return overrides;
}

std::vector<Layout> all_layouts(const Experiment& experiment, const DataDescription& data, const LayoutSpace& space) {
  const std::int64_t batch_size = RunSchedule(with_layout(experiment, {}), data).batch_size();
  std::vector<Layout> layouts;
  for (const std::int64_t tensor : divisors_of(space.num_ranks)) {
    if (tensor > space.most_tensor) break;
    for (const std::int64_t pipeline : divisors_of(space.num_ranks / tensor)) {
      const std::int64_t num_data = space.num_ranks / tensor / pipeline;
      if (num_data > batch_size) continue;
      const std::span orders = pipeline > 1 ? std::span(all_orders) : std::span(all_orders).first(1);
      const std::span shards = num_data > 1 ? std::span(all_shards) : std::span(all_shards).first(1);
      for (const std::int64_t number :
           micro_batches_for(pipeline, batch_size / num_data, experiment.parallel.micro_batches))
        for (const PipelineOrder order : orders)
          for (const Shard shard : shards)
            layouts.push_back({.data = num_data,
                               .pipeline = pipeline,
                               .tensor = tensor,
                               .schedule = order,
                               .micro_batches = number,
                               .shard = shard});
    }
  }
  return layouts;
}

}  // namespace trainer
