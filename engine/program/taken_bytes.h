#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainer {

/// From `begin` up to, not including, `end`; begin < end.
struct ByteRun {
  std::int64_t begin = 0, end = 0;
};

/// Bytes as runs in order, of which no two touch.
class ByteRuns {
 public:
  void add(const ByteRun& added);
  void clear() { runs_.clear(); }
  std::span<const ByteRun> runs() const { return runs_; }

 private:
  std::vector<ByteRun> runs_;
};

/// Moments that are not told apart, numbered from 0: from `begin` up to, not including, `end`.
struct CellRange {
  std::size_t begin = 0, end = 0;
};

// Note [Taken bytes]
// ~~~~~~~~~~~~~~~~~~
// Which bytes are taken at some moment of a range: a segment tree over the moments. A range is the union of O(log n)
// nodes. What is added to a range is noted at its nodes (`throughout`), and at them and all nodes above (`sometime`).
// So what is taken in a range is the union of `sometime` of its nodes and `throughout` of those above them. Bytes that
// touch become one run, which keeps the lists short where places are packed well, whatever the number of items.

/// Bytes that are taken, by time; see Note [Taken bytes].
class TakenBytes {
 public:
  explicit TakenBytes(std::size_t num_cells);

  void add(const CellRange& cells, const ByteRun& bytes);
  void clear();
  /// Appends lists whose union is what is taken at some moment of `cells`; they hold until the next change.
  void find(const CellRange& cells, std::vector<std::span<const ByteRun>>& taken) const;

 private:
  struct Node {
    ByteRuns throughout, sometime;
  };

  template <typename Function>
  void for_nodes_of(const CellRange& cells, Function visit) const;
  template <typename Function>
  void for_nodes_above(const CellRange& cells, Function visit) const;

  std::size_t num_leaves_ = 1;
  std::vector<Node> nodes_;  ///< the root is 1, below node i are 2 i and 2 i + 1
};

/// The lowest offset at which `num_bytes` are in none of the lists; those are used up.
std::int64_t lowest_gap(std::vector<std::span<const ByteRun>>& taken, std::int64_t num_bytes);
/// The lowest offset of the smallest gap that is large enough, or the end of all.
std::int64_t tightest_gap(std::vector<std::span<const ByteRun>>& taken, std::int64_t num_bytes);

}  // namespace trainer
