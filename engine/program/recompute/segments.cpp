#include "engine/program/recompute/segments.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/program/recompute/block_table.h"
#include "engine/program/recompute/order.h"

namespace trainer {
namespace {

constexpr std::int32_t max_segment = 64;  // blocks

/// Least times from a value on, by how much memory is left and whether someone else holds the value.
class SegmentTable : private BlockTable {
 public:
  SegmentTable(ChainFigures figures, const RecomputeUnits& units) : BlockTable(std::move(figures), units) {
    make_rows(static_cast<std::size_t>(last_ + 1) * 2);
    for (const std::int32_t held : {0, 1}) std::fill_n(row(last_, held), row_size(), 0.0F);
    for (std::int32_t i = last_ - 1; i >= 0; --i)
      for (const std::int32_t held : {0, 1}) fill(i, held);
  }

  /// The fastest orders, `max_orders` at most.
  template <class Take>
  void for_each_order(std::int32_t max_orders, Take take) {
    const BlockOption& root = blocks_[0].options[0].front();
    const std::int32_t kept = units_.of(root.kept_bytes), held = root.keeps_output ? 1 : 0;
    const std::int32_t least = std::max(kept, units_.of(root.backward_bytes));
    const std::int32_t stride = 1 + units_.max() / max_orders;
    float last_time = unreached;
    for (std::int32_t m = least; m <= units_.max(); m += stride) {
      const float time = row(0, held)[m - kept];
      if (time >= last_time) continue;
      last_time = time;
      order_.clear();
      trace(0, held, m - kept);
      append(root.backward_nodes);
      take(order_);
    }
  }

 private:
  struct Choice {
    float time = 0;
    std::int32_t least = 0, shift = 0, next = 0, next_held = 0;
    const BlockOption* option = nullptr;  ///< of the blocks up to `next`; null: pass to `next`
  };

  float* row(std::int32_t i, std::int32_t held) { return row_of_state(static_cast<std::size_t>(i) * 2 + held); }

  template <class Look>
  void for_each_choice(std::int32_t i, std::int32_t held, Look look) const {
    const BlockFigures& next = blocks_[i + 1];
    look_at_options(next, held, i + 1, next.first_run_bytes, look);
    if (i + 2 <= last_)
      look_at_options(pairs_[i], held, i + 2, std::max(next.first_run_bytes, blocks_[i + 2].first_run_bytes), look);
    const std::int64_t input_bytes = held == 1 ? 0 : next.input_bytes;
    Choice choice;
    choice.shift = units_.of(input_bytes);
    Segment segment;
    segment.held = held;
    std::int64_t pass_bytes = 0;
    for (std::int32_t k = i + 1; k < last_ && k <= i + max_segment; ++k) {
      const BlockFigures& passed = blocks_[k];
      pass_bytes = std::max(pass_bytes, input_bytes + passed.pass_bytes[k == i + 1 ? 1 : 0] + passed.first_run_bytes);
      extend(segment, passed);
      if (segment.time == std::numeric_limits<double>::infinity()) return;
      if (has_backward(k)) {
        choice.time = static_cast<float>(segment.time);
        choice.least =
            units_.of(std::max({pass_bytes, segment.forward_bytes + passed.entry_bytes, segment.backward_bytes}));
      }
      choice.least = std::max({choice.least, choice.shift, units_.of(pass_bytes)});
      choice.next = k;
      look(choice);
    }
  }

  template <class Look>
  void look_at_options(const BlockFigures& block, std::int32_t held, std::int32_t to, std::int64_t around_bytes,
                       Look look) const {
    for (const BlockOption& option : block.options[held]) {
      Choice choice;
      choice.time = static_cast<float>(option.recompute_time);
      choice.shift = units_.of(option.kept_bytes);
      choice.least = std::max({choice.shift, units_.of(option.forward_bytes + around_bytes),
                               block.block.has_backward() ? units_.of(option.backward_bytes) : 0});
      choice.next = to;
      choice.next_held = option.keeps_output ? 1 : 0;
      choice.option = &option;
      look(choice);
    }
  }

  /// The second run of a segment, all that its blocks need being held until they have run backward.
  struct Segment {
    std::int64_t kept_bytes = 0, forward_bytes = 0, backward_bytes = 0;
    double time = 0;
    std::int32_t held = 0;
  };
  void extend(Segment& segment, const BlockFigures& block) const {
    const BlockOption& option = block.options[segment.held].front();
    segment.forward_bytes = std::max(segment.forward_bytes, segment.kept_bytes + option.forward_bytes);
    segment.backward_bytes = std::max(segment.backward_bytes, segment.kept_bytes + option.backward_bytes);
    segment.kept_bytes += option.kept_bytes;
    segment.time += block.rerun_time + option.recompute_time;
    segment.held = option.keeps_output ? 1 : 0;
  }

  void fill(std::int32_t i, std::int32_t held) {
    float* times = row(i, held);
    const std::int32_t end = units_.max() + 1;
    for_each_choice(i, held, [&](const Choice& choice) {
      const float* next = row(choice.next, choice.next_held);
      const std::int32_t shift = choice.shift;
      const float time = choice.time;
      for (std::int32_t m = choice.least; m < end; ++m) {
        const float found = time + next[m - shift];
        times[m] = found < times[m] ? found : times[m];
      }
    });
  }

  void append_forward_of(std::int32_t first, std::int32_t last) {
    for (std::int32_t b = first; b <= last; ++b) append_forward(blocks_[b].block);
  }

  void trace(std::int32_t i, std::int32_t held, std::int32_t m) {
    // What is to be done when the blocks behind have run backward.
    struct Later {
      std::int32_t i = 0, held = 0;
      Choice choice;
    };
    std::vector<Later> later;
    while (i < last_) {
      Choice best;
      float best_time = unreached;
      for_each_choice(i, held, [&](const Choice& choice) {
        if (m < choice.least) return;
        const float time = choice.time + row(choice.next, choice.next_held)[m - choice.shift];
        if (time >= best_time) return;
        best_time = time;
        best = choice;
      });
      append_forward_of(i + 1, best.next);
      later.push_back({i, held, best});
      i = best.next;
      held = best.next_held;
      m -= best.shift;
    }
    for (; !later.empty(); later.pop_back()) {
      const Later& now = later.back();
      if (now.choice.option != nullptr)
        append(now.choice.option->backward_nodes);
      else
        append_segment(now.i, now.held, now.choice.next);
    }
  }

  void append_segment(std::int32_t i, std::int32_t held, std::int32_t k) {
    while (k > i && !has_backward(k)) --k;
    if (k == i) return;
    append_forward_of(i + 1, k);
    std::vector<const BlockOption*> options;
    for (std::int32_t b = i + 1; b <= k; ++b) {
      options.push_back(&blocks_[b].options[held].front());
      held = options.back()->keeps_output ? 1 : 0;
    }
    for (; !options.empty(); options.pop_back()) append(options.back()->backward_nodes);
  }
};

}  // namespace

void add_segments(const RecomputeProblem& problem, RecomputeFront& front) {
  if (problem.num_forward == 0) return;
  constexpr std::int32_t max_blocks = 1000, max_orders = 400;
  constexpr std::int64_t max_sums = 600'000'000;
  const std::vector<ForwardBlock> blocks = cut_into_blocks(problem, max_blocks);
  const auto num_sums_per_unit = static_cast<std::int64_t>(blocks.size()) * 2 * max_segment;
  const RecomputeUnits units(problem, front.start_peak_bytes() - problem.base_bytes,
                             std::clamp<std::int64_t>(max_sums / num_sums_per_unit, 1000, 20000));
  SegmentTable table(chain_figures(problem, blocks), units);
  table.for_each_order(max_orders,
                       [&](const std::vector<std::int32_t>& order) { front.offer(without_unread(problem, order)); });
}

}  // namespace trainer
