#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/recompute/blocks.h"
#include "engine/program/recompute/search.h"

namespace trainer {

/// What is held whatever the search chooses: what the backward pass makes, pinned values, and values that no node makes
/// save the batch of block 0. Bytes do not count base_bytes.
class HeldAnyway {
 public:
  HeldAnyway(const RecomputeProblem& problem, const std::vector<ForwardBlock>& blocks);

  bool contains(std::int32_t value) const { return last_[value] != absent; }
  /// Whether `value` is held before node `position` and read by it or later.
  bool is_held_at(std::int32_t value, std::int32_t position) const {
    return contains(value) && made_[value] < position && position <= last_[value];
  }
  bool outlives(std::int32_t value, std::int32_t position) const { return last_[value] >= position; }
  std::int64_t bytes_before(std::int32_t position) const { return before_[position]; }
  std::int64_t bytes_during(std::int32_t position) const { return during_[position]; }

 private:
  static constexpr std::int32_t absent = -2;
  std::vector<std::int32_t> made_, last_;      // by value: positions of nodes
  std::vector<std::int64_t> before_, during_;  // by node, and one behind the last
};

/// One block as a problem of its own: [start,] its forward nodes, turn | its backward nodes, end. `start` makes the
/// input; `turn` stands for all that happens between the two parts: it reads the output and makes what the backward
/// part finds held anyway; `end` reads what is read later.
struct BlockProblem {
  /// Whether `turn` reads the output: not where the backward part comes at once.
  enum class Turn : std::uint8_t { far, near };
  BlockProblem(const RecomputeProblem& whole, const HeldAnyway& held_anyway, const ForwardBlock& block,
               bool is_input_held, Turn turn);

  RecomputeProblem problem;
  std::int32_t num_start = 0;  ///< 1 where there is a node `start`
  std::int32_t turn = 0, end = 0;
  std::int32_t input = -1, output = -1;
  std::int64_t handed_bytes = 0;  ///< what `turn` makes
  /// The node of the whole problem that stands behind one of this; not for start, turn and end.
  std::int32_t node_of(std::int32_t node, const ForwardBlock& block) const {
    return node < turn ? block.first + node - num_start : block.first_backward + node - turn - 1;
  }
  bool is_own(std::int32_t node) const { return node >= num_start && node != turn && node != end; }
};

}  // namespace trainer
