#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "engine/program/recompute/block_options.h"
#include "engine/program/recompute/units.h"

namespace trainer {

/// Least times of parts of a chain, a row of them for each state by the units of memory that are left, and the order
/// that is read off them.
class BlockTable {
 protected:
  static constexpr float unreached = std::numeric_limits<float>::infinity();

  BlockTable(ChainFigures figures, const RecomputeUnits& units)
      : blocks_(std::move(figures.blocks)),
        pairs_(std::move(figures.pairs)),
        units_(units),
        last_(static_cast<std::int32_t>(blocks_.size()) - 1) {}

  void make_rows(std::size_t num_states) { times_.assign(num_states * row_size(), unreached); }
  std::size_t row_size() const { return static_cast<std::size_t>(units_.max()) + 1; }
  float* row_of_state(std::size_t state) { return times_.data() + state * row_size(); }
  bool has_backward(std::int32_t b) const { return blocks_[b].block.has_backward(); }

  void append(const std::vector<std::int32_t>& nodes) { order_.insert(order_.end(), nodes.begin(), nodes.end()); }
  void append_forward(const ForwardBlock& block) {
    for (std::int32_t n = block.first; n < block.end; ++n) order_.push_back(n);
  }

  std::vector<BlockFigures> blocks_, pairs_;
  const RecomputeUnits& units_;
  std::int32_t last_;
  std::vector<std::int32_t> order_;

 private:
  std::vector<float> times_;
};

}  // namespace trainer
