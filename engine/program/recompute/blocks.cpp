#include "engine/program/recompute/blocks.h"

#include <algorithm>

namespace trainer {
namespace {

/// Where a problem can be cut. A cut is named by the forward node before it.
class Cuts {
 public:
  explicit Cuts(const RecomputeProblem& problem) : problem_(problem), producer_(problem.values.size(), -1) {
    for (std::int32_t n = 0; n < problem.num_forward; ++n)
      for (std::int32_t output : problem.nodes[n].outputs) producer_[output] = n;
    find_forward_reads();
    find_crossings();
    find_levels();
    remove_what_backward_crosses();
  }

  /// Keeps `num_kept` cuts at even distances, each moved to the smallest value nearby.
  void thin_out(std::size_t num_kept) {
    std::vector<std::int32_t> all;
    for (std::int32_t n = 0; n < problem_.num_forward; ++n)
      if (crossing_[n] >= 0) all.push_back(n);
    if (all.size() <= num_kept) return;
    const double stride = static_cast<double>(all.size()) / static_cast<double>(num_kept);
    std::vector<std::int32_t> kept(crossing_.size(), -1);
    for (std::size_t i = 0; i < num_kept; ++i) {
      const auto from = static_cast<std::size_t>(static_cast<double>(i) * stride);
      const auto to = std::max(from + 1, static_cast<std::size_t>(static_cast<double>(i + 1) * stride));
      // The last of the smallest, so that equal layers are cut at equal places.
      std::size_t best = to - 1;
      for (std::size_t c = to - 1; c-- > from;)
        if (bytes_at(all[c]) < bytes_at(all[best])) best = c;
      kept[all[best]] = crossing_[all[best]];
    }
    crossing_ = kept;
  }

  std::vector<ForwardBlock> blocks() const {
    std::vector<ForwardBlock> blocks(1);
    for (std::int32_t n = 0; n < problem_.num_forward; ++n) {
      if (crossing_[n] < 0 && n + 1 < problem_.num_forward) continue;
      ForwardBlock block;
      block.first = blocks.back().end;
      block.end = n + 1;
      block.output = crossing_[n];
      blocks.push_back(block);
    }
    blocks[0].output = batch_of(blocks);
    for (std::size_t b = 1; b < blocks.size(); ++b) blocks[b].input = blocks[b - 1].output;
    if (blocks.back().output < 0 && blocks.size() > 1) blocks.back().output = last_output();
    // Levels fall along the backward pass, so each block's backward nodes stand together.
    auto position = static_cast<std::int32_t>(problem_.nodes.size());
    for (ForwardBlock& block : blocks) {
      block.end_backward = position;
      while (position > problem_.num_forward && level_[position - 1 - problem_.num_forward] < block.end) --position;
      block.first_backward = position;
    }
    return blocks;
  }

 private:
  /// Whether which copies of it are held is for the search to say.
  bool is_counted(std::int32_t value) const {
    return producer_[value] >= 0 && !problem_.values[value].is_given && !problem_.values[value].is_pinned &&
           !problem_.values[value].is_result;
  }
  bool is_batch_like(std::int32_t value) const {
    return !problem_.values[value].is_given && last_forward_read_[value] >= 0;
  }
  std::int64_t bytes_at(std::int32_t cut) const { return problem_.values[crossing_[cut]].num_bytes; }

  void find_forward_reads() {
    last_forward_read_.assign(problem_.values.size(), -1);
    for (std::int32_t n = 0; n < problem_.num_forward; ++n) {
      for (std::int32_t input : problem_.nodes[n].inputs) last_forward_read_[input] = n;
      for (std::int32_t input : problem_.nodes[n].rerun_inputs) last_forward_read_[input] = n;
    }
  }

  void find_crossings() {
    crossing_.assign(problem_.num_forward, -1);
    std::vector<std::int32_t> num_ending(problem_.num_forward, 0);
    std::int32_t num_open = 0;
    for (std::int32_t n = 0; n < problem_.num_forward; ++n) {
      num_open -= num_ending[n];
      std::int32_t crossing = -1;
      for (std::int32_t output : problem_.nodes[n].outputs) {
        if (!is_counted(output) || last_forward_read_[output] <= n) continue;
        ++num_open;
        ++num_ending[last_forward_read_[output]];
        crossing = output;
      }
      if (num_open == 1 && crossing >= 0) crossing_[n] = crossing;
    }
  }

  /// level_: for each backward node, the last forward node whose outputs it or one behind it reads; -1: none. What
  /// reads no such output runs with those before it: nothing need be computed again for it.
  void find_levels() {
    const auto num_backward = static_cast<std::int32_t>(problem_.nodes.size()) - problem_.num_forward;
    level_.assign(num_backward, -1);
    std::vector<bool> reads_forward(num_backward, false);
    std::int32_t level = -1;
    for (std::int32_t b = num_backward - 1; b >= 0; --b) {
      for (std::int32_t input : problem_.nodes[problem_.num_forward + b].inputs) {
        if (producer_[input] < 0 && !is_batch_like(input)) continue;
        reads_forward[b] = true;
        if (is_counted(input)) level = std::max(level, producer_[input]);
      }
      level_[b] = level;
    }
    for (std::int32_t b = 1; b < num_backward; ++b)
      if (!reads_forward[b]) level_[b] = level_[b - 1];
  }

  void remove_what_backward_crosses() {
    // A node of level L that reads what node p made: no cut may lie between, save that the value at a cut is the input
    // of the block behind it.
    std::vector<std::int32_t> num_spanning(problem_.num_forward + 1, 0);
    for (std::size_t b = 0; b < level_.size(); ++b) {
      for (std::int32_t input : problem_.nodes[problem_.num_forward + static_cast<std::int32_t>(b)].inputs) {
        if (!is_counted(input)) continue;
        const std::int32_t from = producer_[input] + (crossing_[producer_[input]] == input ? 1 : 0);
        if (from >= level_[b]) continue;
        ++num_spanning[from];
        --num_spanning[level_[b]];
      }
    }
    std::int32_t spanning = 0;
    for (std::int32_t n = 0; n < problem_.num_forward; ++n) {
      spanning += num_spanning[n];
      if (spanning > 0) crossing_[n] = -1;
    }
  }

  /// The one value that no node makes, if the first block and its backward part alone read it; else -1.
  std::int32_t batch_of(const std::vector<ForwardBlock>& blocks) const {
    std::int32_t batch = -1;
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(problem_.values.size()); ++v) {
      if (producer_[v] >= 0 || problem_.values[v].is_given || last_forward_read_[v] < 0) continue;
      if (batch >= 0 || last_forward_read_[v] >= blocks[1].end) return -1;
      batch = v;
    }
    for (std::size_t b = 0; b < level_.size() && batch >= 0; ++b) {
      if (level_[b] < blocks[1].end) break;
      for (std::int32_t input : problem_.nodes[problem_.num_forward + static_cast<std::int32_t>(b)].inputs)
        if (input == batch) return -1;
    }
    return batch;
  }

  std::int32_t last_output() const {
    for (std::int32_t output : problem_.nodes[problem_.num_forward - 1].outputs)
      if (is_counted(output)) return output;
    return -1;
  }

  const RecomputeProblem& problem_;
  std::vector<std::int32_t> producer_;           // by value, of forward nodes
  std::vector<std::int32_t> last_forward_read_;  // by value
  std::vector<std::int32_t> crossing_;           // by forward node: the one value behind it, or -1 for no cut
  std::vector<std::int32_t> level_;
};

}  // namespace

std::vector<ForwardBlock> cut_into_blocks(const RecomputeProblem& problem, std::int32_t max_blocks) {
  Cuts cuts(problem);
  cuts.thin_out(static_cast<std::size_t>(std::max(0, max_blocks - 1)));
  return cuts.blocks();
}

}  // namespace trainer
