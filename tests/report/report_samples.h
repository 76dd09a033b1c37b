#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "engine/train/events.h"

namespace trainer {

/// A small context whose sums are right: 6 KiB of parameters, 24 KiB of activations, 2 KiB of input are allocated.
inline OutOfMemoryContext sample_context() {
  OutOfMemoryContext context;
  context.failure.requested = 19'999'000;
  context.failure.rounded = 19'999'232;
  context.failure.segment_bytes = 20'971'520;
  context.failure.capacity = 8'388'608;
  context.failure.statistics.requested_bytes.all.current = 32'000;
  context.failure.statistics.allocated_bytes.all.current = 32'768;
  context.failure.statistics.reserved_bytes.all.current = 2'097'152;
  context.failure.statistics.num_alloc_retries = 1;
  context.failure.largest_free_block = 1'032'192;
  context.step = 3;
  context.phase = Phase::backward;
  context.layer = "2 (conv2d)";
  context.op = "conv2d_backward_weight";
  context.buffer = "2.weight.grad";
  context.category = Category::gradient;
  context.live.by_category[static_cast<std::size_t>(Category::parameter)] = 6'144;
  context.live.by_category[static_cast<std::size_t>(Category::activation)] = 24'576;
  context.live.by_category[static_cast<std::size_t>(Category::input)] = 2'048;
  context.live.by_layer = {{"0 (linear)", 18'432}, {"2 (conv2d)", 12'288}, {"(no layer)", 2'048}};
  context.live.top = {{"0.output", "0 (linear)", Category::activation, 16'384},
                      {"2.output", "2 (conv2d)", Category::activation, 8'192}};
  context.timeline = {{Phase::forward, 0, 8'192}, {Phase::forward, 1, 24'576}, {Phase::backward, 1, 32'768}};
  return context;
}

inline std::vector<Change> sample_fixes() {
  constexpr std::int64_t capacity = 8'388'608;
  const auto change = [](std::vector<std::string> set, ChangePart part, NumbersEffect numbers,
                         std::int64_t peak_reserved, double relative_step_time) {
    Change result;
    result.set = std::move(set);
    result.parts = {part};
    result.numbers = numbers;
    result.fits = peak_reserved <= capacity;
    result.peak_reserved = peak_reserved;
    result.capacity = capacity;
    result.relative_step_time = relative_step_time;
    return result;
  };
  return {change({"train.batch_size=16", "train.accumulation_steps=4"}, UpdateCut{64, 64, 4, 16},
                 NumbersEffect::same_rounding, 4'194'304, 1.25),
          change({"train.batch_size=16"}, Effect::largest_batch, NumbersEffect::other, 4'194'304, 0.25),
          change({"optimizer.momentum=0"}, Effect::no_momentum, NumbersEffect::other, 9'437'184, 1.0)};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  return lines;
}

}  // namespace trainer
