#include "engine/program/recompute/block_options.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

#include "engine/program/recompute/block_problem.h"
#include "engine/program/recompute/kept.h"
#include "engine/program/recompute/measure.h"
#include "engine/program/recompute/order.h"

namespace trainer {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

double rerun_time_of(const RecomputeProblem::Node& node) {
  if (!node.can_rerun) return never;
  return node.rerun_time < 0 ? node.time : node.rerun_time;
}

/// Sets of kept values of one block, few enough to try all in a small block.
class BlockKeepSets {
 public:
  explicit BlockKeepSets(const RecomputeProblem& problem) : kept_orders_(problem), problem_(problem) {}

  /// Calls `look` with the order of each set.
  template <class Look>
  void for_each(Look look) {
    constexpr std::size_t max_choices_of_all_sets = 7;
    const std::vector<std::int32_t>& choices = kept_orders_.choices();
    std::vector<bool> keep(problem_.values.size(), true);
    auto look_at = [&] {
      kept_orders_.order_of(keep, order_);
      look(order_);
    };
    if (choices.size() <= max_choices_of_all_sets) {
      for (std::uint32_t set = 0; set < (1U << choices.size()); ++set) {
        for (std::size_t c = 0; c < choices.size(); ++c) keep[choices[c]] = (set >> c & 1U) == 0;
        look_at();
      }
      return;
    }
    look_at();
    for (const std::vector<std::int32_t>& sequence : sequences()) {
      std::fill(keep.begin(), keep.end(), true);
      for (std::int32_t value : sequence) {
        keep[value] = false;
        look_at();
      }
    }
    for (std::size_t every = 2; every <= choices.size(); every += 1 + every / 4) {
      for (std::size_t c = 0; c < choices.size(); ++c) keep[choices[c]] = c % every == every - 1;
      look_at();
    }
  }

 private:
  /// In which to drop values one by one: by the time per byte, and from either end.
  std::vector<std::vector<std::int32_t>> sequences() const {
    std::vector<double> time(problem_.values.size(), 0);
    for (const RecomputeProblem::Node& node : problem_.nodes)
      for (std::int32_t output : node.outputs) time[output] = node.rerun_time < 0 ? node.time : node.rerun_time;
    std::vector<std::vector<std::int32_t>> sequences(3, kept_orders_.choices());
    std::stable_sort(sequences[0].begin(), sequences[0].end(), [&](std::int32_t a, std::int32_t b) {
      return time[a] * static_cast<double>(problem_.values[b].num_bytes) <
             time[b] * static_cast<double>(problem_.values[a].num_bytes);
    });
    std::reverse(sequences[2].begin(), sequences[2].end());
    return sequences;
  }

  KeptOrders kept_orders_;
  const RecomputeProblem& problem_;
  std::vector<std::int32_t> order_;
};

template <class T, class Key>
void drop_dominated(std::vector<T>& all, Key is_as_good) {
  std::vector<T> best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool is_dominated = false;
    for (std::size_t k = 0; k < all.size() && !is_dominated; ++k)
      is_dominated = k != i && is_as_good(all[k], all[i]) && (k < i || !is_as_good(all[i], all[k]));
    if (!is_dominated) best.push_back(all[i]);
  }
  all = std::move(best);
}

/// Leaves at most `count`, evenly along their order.
template <class T>
void thin_out(std::vector<T>& all, std::size_t count) {
  if (all.size() <= count) return;
  std::vector<T> left;
  for (std::size_t i = 0; i < count; ++i) left.push_back(all[i * (all.size() - 1) / (count - 1)]);
  all = std::move(left);
}

constexpr std::size_t max_options = 24;

/// Options as nodes of the BlockProblem.
std::vector<BlockOption> options_of(const BlockProblem& block, bool is_input_held) {
  const RecomputeProblem& problem = block.problem;
  const std::int64_t input_bytes = is_input_held && block.input >= 0 ? problem.values[block.input].num_bytes : 0;
  OrderMeter meter(problem);
  std::vector<OrderMeter::Step> steps;
  std::vector<BlockOption> options;
  BlockKeepSets(problem).for_each([&](const std::vector<std::int32_t>& order) {
    BlockOption option;
    option.recompute_time = meter.measure(order, steps).recompute_time;
    for (std::int32_t p = block.num_start; p < block.turn; ++p)
      option.forward_bytes = std::max(option.forward_bytes, steps[p].running_bytes);
    option.forward_bytes = std::max<std::int64_t>(0, option.forward_bytes - problem.base_bytes - input_bytes);
    option.kept_bytes = steps[block.turn].after_bytes - problem.base_bytes - block.handed_bytes - input_bytes;
    bool is_output_made_again = false;
    for (std::size_t p = static_cast<std::size_t>(block.turn) + 1; p < order.size(); ++p) {
      const RecomputeProblem::Node& node = problem.nodes[order[p]];
      option.backward_bytes = std::max(option.backward_bytes, steps[p].running_bytes - input_bytes);
      const std::vector<std::int32_t>& reads =
          order[p] < block.turn && !node.rerun_inputs.empty() ? node.rerun_inputs : node.inputs;
      const bool reads_output = std::find(reads.begin(), reads.end(), block.output) != reads.end();
      if (block.output >= 0 && reads_output && !is_output_made_again) option.keeps_output = true;
      for (std::int32_t output : node.outputs) is_output_made_again = is_output_made_again || output == block.output;
      if (block.is_own(order[p])) option.backward_nodes.push_back(order[p]);
    }
    options.push_back(std::move(option));
  });
  std::stable_sort(options.begin(), options.end(), [](const BlockOption& a, const BlockOption& b) {
    return std::pair(a.recompute_time, a.kept_bytes) < std::pair(b.recompute_time, b.kept_bytes);
  });
  drop_dominated(options, [](const BlockOption& a, const BlockOption& b) {
    return a.forward_bytes <= b.forward_bytes && a.kept_bytes <= b.kept_bytes && a.backward_bytes <= b.backward_bytes &&
           a.recompute_time <= b.recompute_time && (a.keeps_output == b.keeps_output || b.keeps_output);
  });
  thin_out(options, max_options);
  return options;
}

std::vector<BlockRerun> reruns_of(const BlockProblem& block, bool is_input_held) {
  const RecomputeProblem& problem = block.problem;
  const std::int64_t input_bytes = is_input_held && block.input >= 0 ? problem.values[block.input].num_bytes : 0;
  OrderMeter meter(problem);
  std::vector<OrderMeter::Step> steps;
  std::vector<BlockRerun> reruns;
  std::vector<std::int32_t> needed;
  BlockKeepSets(problem).for_each([&](const std::vector<std::int32_t>& order) {
    // Here every run of a forward node is a further one, and one that nothing reads need not be.
    needed = without_unread(problem, order, block.num_start, block.turn);
    BlockRerun rerun;
    meter.measure(needed, steps);
    bool is_behind_turn = false;
    for (std::size_t p = 0; p < needed.size(); ++p) {
      is_behind_turn = is_behind_turn || needed[p] == block.turn;
      if (!block.is_own(needed[p])) continue;
      // What is held anyway is held from the beginning here.
      const std::int64_t handed = is_behind_turn ? 0 : block.handed_bytes;
      rerun.bytes = std::max(rerun.bytes, steps[p].running_bytes + handed - input_bytes);
      if (needed[p] < block.turn) rerun.time += rerun_time_of(problem.nodes[needed[p]]);
      rerun.nodes.push_back(needed[p]);
    }
    if (rerun.time < never) reruns.push_back(std::move(rerun));
  });
  std::stable_sort(reruns.begin(), reruns.end(),
                   [](const BlockRerun& a, const BlockRerun& b) { return a.time < b.time; });
  drop_dominated(reruns,
                 [](const BlockRerun& a, const BlockRerun& b) { return a.bytes <= b.bytes && a.time <= b.time; });
  thin_out(reruns, max_options);
  return reruns;
}

/// Everything that options depend on, as numbers.
std::vector<std::int64_t> signature_of(const BlockProblem& block) {
  std::vector<std::int64_t> signature = {
      block.num_start, block.turn, block.end, block.input, block.output, block.handed_bytes, block.problem.base_bytes};
  auto add_list = [&](const std::vector<std::int32_t>& list) {
    signature.push_back(static_cast<std::int64_t>(list.size()));
    signature.insert(signature.end(), list.begin(), list.end());
  };
  for (const RecomputeProblem::Node& node : block.problem.nodes) {
    signature.insert(signature.end(), {std::bit_cast<std::int64_t>(node.time), node.workspace_bytes,
                                       std::bit_cast<std::int64_t>(node.rerun_time), node.can_rerun ? 1 : 0});
    add_list(node.inputs);
    add_list(node.outputs);
    add_list(node.rerun_inputs);
    for (const RecomputeProblem::Node::TakeOver& rule : node.take_overs)
      signature.insert(signature.end(), {rule.output, rule.input});
    signature.push_back(-1);
  }
  for (const RecomputeProblem::Value& value : block.problem.values)
    signature.insert(signature.end(), {value.num_bytes, value.is_result ? 1 : 0});
  return signature;
}

/// Looks at blocks, at equal ones once. What is held anyway is left out while it looks: it differs from block to
/// block as gradients of parameters gather, and only add to what is held.
class BlockMeter {
 public:
  BlockMeter(const RecomputeProblem& problem, const std::vector<ForwardBlock>& blocks)
      : problem_(problem), held_anyway_(problem, blocks) {}

  BlockFigures figures_of(const ForwardBlock& block) {
    BlockFigures figures;
    figures.block = block;
    figures.input_bytes = block.input >= 0 ? problem_.values[block.input].num_bytes : 0;
    figures.entry_bytes = held_anyway_.bytes_before(block.first_backward);
    for (std::int32_t n = block.first; n < block.end; ++n) {
      figures.first_run_bytes = std::max(figures.first_run_bytes, held_anyway_.bytes_during(n));
      figures.rerun_time += rerun_time_of(problem_.nodes[n]);
    }
    for (const bool is_held : {false, true}) {
      find_options(figures, is_held);
      find_reruns(figures, is_held);
    }
    return figures;
  }

 private:
  void find_options(BlockFigures& figures, bool is_held) {
    BlockProblem block(problem_, held_anyway_, figures.block, is_held, BlockProblem::Turn::far);
    const std::int64_t around_bytes = std::exchange(block.problem.base_bytes, 0);
    auto [entry, is_new] = options_.try_emplace({is_held ? 1 : 0, signature_of(block)});
    if (is_new) entry->second = options_of(block, is_held);
    figures.options[is_held ? 1 : 0] = entry->second;
    for (BlockOption& option : figures.options[is_held ? 1 : 0]) {
      option.backward_bytes += around_bytes;
      for (std::int32_t& node : option.backward_nodes) node = block.node_of(node, figures.block);
    }
    find_pass(figures, is_held, block);
  }

  /// The backward part may be empty: such a block is revived by doing nothing, which nobody asks for.
  void find_reruns(BlockFigures& figures, bool is_held) {
    BlockProblem block(problem_, held_anyway_, figures.block, is_held, BlockProblem::Turn::near);
    const std::int64_t around_bytes = std::exchange(block.problem.base_bytes, 0);
    auto [entry, is_new] = reruns_.try_emplace({is_held ? 1 : 0, signature_of(block)});
    if (is_new) entry->second = reruns_of(block, is_held);
    figures.reruns[is_held ? 1 : 0] = entry->second;
    for (BlockRerun& rerun : figures.reruns[is_held ? 1 : 0]) {
      rerun.bytes += around_bytes;
      for (std::int32_t& node : rerun.nodes) node = block.node_of(node, figures.block);
    }
  }

  static void find_pass(BlockFigures& figures, bool is_held, const BlockProblem& block) {
    RecomputeProblem problem = block.problem;
    for (std::size_t n = block.turn; n < problem.nodes.size(); ++n)
      for (std::int32_t output : problem.nodes[n].outputs) problem.values[output].num_bytes = 0;
    problem.nodes.resize(block.turn + 1);
    problem.nodes[block.turn].outputs.clear();
    if (is_held && block.input >= 0) problem.nodes[block.turn].inputs.push_back(block.input);
    std::vector<std::int32_t> order(problem.nodes.size());
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = static_cast<std::int32_t>(n);
    order = without_unread(problem, order, block.num_start, block.turn);
    std::vector<OrderMeter::Step> steps;
    OrderMeter(problem).measure(order, steps);
    std::int64_t& bytes = figures.pass_bytes[is_held ? 1 : 0];
    figures.pass_nodes.clear();
    figures.pass_time = 0;
    for (std::size_t p = 0; p < order.size(); ++p) {
      if (!block.is_own(order[p])) continue;
      bytes = std::max(bytes, steps[p].running_bytes - (is_held ? figures.input_bytes : 0));
      figures.pass_time += rerun_time_of(problem.nodes[order[p]]);
      figures.pass_nodes.push_back(block.node_of(order[p], figures.block));
    }
  }

  using Key = std::pair<int, std::vector<std::int64_t>>;
  const RecomputeProblem& problem_;
  HeldAnyway held_anyway_;
  std::map<Key, std::vector<BlockOption>> options_;
  std::map<Key, std::vector<BlockRerun>> reruns_;
};

}  // namespace

ChainFigures chain_figures(const RecomputeProblem& problem, const std::vector<ForwardBlock>& blocks) {
  BlockMeter meter(problem, blocks);
  ChainFigures figures;
  for (const ForwardBlock& block : blocks) figures.blocks.push_back(meter.figures_of(block));
  for (std::size_t b = 1; b + 1 < blocks.size(); ++b) {
    ForwardBlock pair = blocks[b];
    pair.end = blocks[b + 1].end;
    pair.first_backward = blocks[b + 1].first_backward;
    pair.output = blocks[b + 1].output;
    figures.pairs.push_back(meter.figures_of(pair));
    for (std::vector<BlockOption>& options : figures.pairs.back().options) {
      std::erase_if(options, [&](const BlockOption& option) {
        return std::none_of(option.backward_nodes.begin(), option.backward_nodes.end(), [&](std::int32_t n) {
          const std::vector<std::int32_t>& outputs = problem.nodes[n].outputs;
          return std::find(outputs.begin(), outputs.end(), blocks[b].output) != outputs.end();
        });
      });
      constexpr std::size_t max_pair_options = 8;
      thin_out(options, max_pair_options);
    }
  }
  return figures;
}

}  // namespace trainer
