#include "engine/program/recompute/chain.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/program/recompute/block_table.h"
#include "engine/program/recompute/order.h"

namespace trainer {
namespace {

/// T of Note [Recomputation on a chain], and the orders it stands for.
class ChainTable : private BlockTable {
 public:
  ChainTable(ChainFigures figures, const RecomputeUnits& units) : BlockTable(std::move(figures), units) {
    make_rows(static_cast<std::size_t>(last_ + 1) * (last_ + 2));
    for (std::int32_t length = 0; length <= last_; ++length)
      for (std::int32_t i = 0; i + length <= last_; ++i)
        for (const std::int32_t held : {0, 1}) fill({i, i + length, held});
  }

  /// The fastest orders, one for each time that more memory buys.
  template <class Take>
  void for_each_order(Take take) {
    float last_time = unreached;
    for (std::int32_t m = 0; m <= units_.max(); ++m) {
      const BlockOption* best = nullptr;
      float best_time = last_time;
      for (const BlockOption& option : blocks_[0].options[0]) {
        const std::int32_t kept = units_.of(option.kept_bytes);
        if (m < std::max(kept, units_.of(option.backward_bytes))) continue;
        const float time = row({0, last_, option.keeps_output ? 1 : 0})[m - kept];
        if (time < best_time) {
          best_time = time;
          best = &option;
        }
      }
      if (best == nullptr) continue;
      last_time = best_time;
      order_.clear();
      trace({0, last_, best->keeps_output ? 1 : 0}, m - units_.of(best->kept_bytes));
      append(best->backward_nodes);
      take(order_);
    }
  }

 private:
  struct State {
    std::int32_t i = 0, j = 0, held = 0;  ///< held: whether someone else holds value i
  };
  /// What can be done in a state: its time is `time` + first[m - shift] + second[m], from m = `least` on.
  struct Choice {
    float time = 0;
    std::int32_t least = 0, shift = 0;
    const float* first = nullptr;
    const float* second = nullptr;
    State first_state, second_state;
    const BlockOption* option = nullptr;  ///< of `block`
    const BlockFigures* block = nullptr;
    const BlockRerun* rerun = nullptr;
    std::int32_t pass_to = -1;
  };

  float* row(State s) {
    const std::size_t i = s.i;
    const std::size_t before = i * (last_ + 1) - i * (i - 1) / 2;
    return row_of_state((before + (s.j - s.i)) * 2 + s.held);
  }

  template <class Look>
  void for_each_choice(State s, Look look) {
    const bool is_first_run = s.j == last_;
    Choice choice;
    if (!has_backward(s.j) && !is_first_run) {
      choice.first_state = {s.i, s.j - 1, s.held};
      choice.first = row(choice.first_state);
      look(choice);
      return;
    }
    const BlockFigures& next = blocks_[s.i + 1];
    const std::int64_t around_bytes = is_first_run ? next.first_run_bytes : blocks_[s.j].entry_bytes;
    if (s.i + 1 == s.j && !is_first_run) {
      for (const BlockRerun& rerun : next.reruns[s.held]) {
        choice.time = static_cast<float>(rerun.time);
        choice.least = units_.of(rerun.bytes);
        choice.rerun = &rerun;
        look(choice);
      }
      return;
    }
    look_at_options(s, next, s.i + 1, around_bytes, look);
    if (s.i + 2 < s.j || (s.i + 2 == s.j && is_first_run))
      look_at_options(s, pairs_[s.i], s.i + 2,
                      is_first_run ? std::max(around_bytes, blocks_[s.i + 2].first_run_bytes) : around_bytes, look);
    look_at_passes(s, look);
  }

  /// Runs `block`, which leads from value i to value `next`, and keeps something of it.
  template <class Look>
  void look_at_options(State s, const BlockFigures& block, std::int32_t next, std::int64_t around_bytes, Look look) {
    Choice choice;
    choice.block = &block;
    for (const BlockOption& option : block.options[s.held]) {
      choice.time = static_cast<float>(option.recompute_time + (s.j == last_ ? 0 : block.rerun_time));
      choice.shift = units_.of(option.kept_bytes);
      choice.least = std::max({choice.shift, units_.of(option.forward_bytes + around_bytes),
                               block.block.has_backward() ? units_.of(option.backward_bytes) : 0});
      choice.first_state = {next, s.j, option.keeps_output ? 1 : 0};
      choice.first = row(choice.first_state);
      choice.option = &option;
      look(choice);
    }
  }

  template <class Look>
  void look_at_passes(State s, Look look) {
    const bool is_first_run = s.j == last_;
    Choice choice;
    const std::int64_t input_bytes = s.held == 1 ? 0 : blocks_[s.i + 1].input_bytes;
    choice.shift = units_.of(input_bytes);
    std::int64_t bytes = 0;
    double time = 0;
    for (std::int32_t k = s.i + 1; k < s.j; ++k) {
      const BlockFigures& passed = blocks_[k];
      bytes = std::max(bytes, input_bytes + passed.pass_bytes[k == s.i + 1 ? 1 : 0] +
                                  (is_first_run ? passed.first_run_bytes : blocks_[s.j].entry_bytes));
      time += is_first_run ? 0 : passed.pass_time;
      choice.time = static_cast<float>(time);
      choice.least = std::max(choice.shift, units_.of(bytes));
      choice.first_state = {k, s.j, 0};
      choice.first = row(choice.first_state);
      choice.second_state = {s.i, k, s.held};
      choice.second = row(choice.second_state);
      choice.pass_to = k;
      look(choice);
    }
  }

  void fill(State s) {
    float* times = row(s);
    const std::int32_t end = units_.max() + 1;
    if (s.i == s.j) {
      std::fill(times, times + end, 0.0F);
      return;
    }
    for_each_choice(s, [&](const Choice& c) {
      const float time = c.time;
      const std::int32_t shift = c.shift;
      auto take = [&](auto time_at) {
        for (std::int32_t m = c.least; m < end; ++m) {
          const float found = time_at(m);
          times[m] = found < times[m] ? found : times[m];
        }
      };
      const float* first = c.first;
      const float* second = c.second;
      if (second != nullptr)
        take([=](std::int32_t m) { return time + first[m - shift] + second[m]; });
      else if (first != nullptr)
        take([=](std::int32_t m) { return time + first[m - shift]; });
      else
        take([=](std::int32_t) { return time; });
    });
  }

  /// Appends the order behind a state with `m` units free.
  void trace(State s, std::int32_t m) {
    if (s.i == s.j) return;
    Choice best;
    float best_time = unreached;
    for_each_choice(s, [&](const Choice& c) {
      if (m < c.least) return;
      float time = c.time;
      if (c.first != nullptr) time += c.first[m - c.shift];
      if (c.second != nullptr) time += c.second[m];
      if (time >= best_time) return;
      best_time = time;
      best = c;
    });
    if (best.rerun != nullptr) {
      append(best.rerun->nodes);
      return;
    }
    if (best.option != nullptr) append_forward(best.block->block);
    for (std::int32_t k = s.i + 1; k <= best.pass_to; ++k) {
      if (s.j == last_)
        append_forward(blocks_[k].block);
      else
        append(blocks_[k].pass_nodes);
    }
    trace(best.first_state, m - best.shift);
    if (best.option != nullptr) append(best.option->backward_nodes);
    if (best.second != nullptr) trace(best.second_state, m);
  }
};

}  // namespace

void add_chain(const RecomputeProblem& problem, RecomputeFront& front) {
  if (problem.num_forward == 0) return;
  constexpr std::int64_t max_units = 1000;
  const RecomputeUnits units(problem, front.start_peak_bytes() - problem.base_bytes, max_units);
  // Work grows with the cube of the number of blocks, the table with its square.
  constexpr double max_sums = 1e9, max_times = 16e6;
  const double num_units = units.max() + 1;
  const double max_blocks = std::min(std::cbrt(3 * max_sums / num_units), std::sqrt(max_times / num_units));
  const std::vector<ForwardBlock> blocks = cut_into_blocks(problem, static_cast<std::int32_t>(max_blocks));
  ChainTable table(chain_figures(problem, blocks), units);
  table.for_each_order([&](const std::vector<std::int32_t>& order) { front.offer(without_unread(problem, order)); });
}

}  // namespace trainer
