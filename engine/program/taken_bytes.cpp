#include "engine/program/taken_bytes.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace trainer {
namespace {

/// Drops the runs that end at or below `at`.
void drop_until(std::span<const ByteRun>& runs, std::int64_t at) {
  if (runs.empty() || runs.front().end > at) return;
  const auto above = std::upper_bound(runs.begin(), runs.end(), at,
                                      [](std::int64_t offset, const ByteRun& run) { return offset < run.end; });
  runs = runs.subspan(static_cast<std::size_t>(above - runs.begin()));
}

}  // namespace

void ByteRuns::add(const ByteRun& added) {
  const auto first = std::lower_bound(runs_.begin(), runs_.end(), added.begin,
                                      [](const ByteRun& run, std::int64_t offset) { return run.end < offset; });
  if (first == runs_.end() || first->begin > added.end) {
    runs_.insert(first, added);
    return;
  }
  first->begin = std::min(first->begin, added.begin);
  first->end = std::max(first->end, added.end);
  auto last = first + 1;
  for (; last != runs_.end() && last->begin <= first->end; ++last) first->end = std::max(first->end, last->end);
  runs_.erase(first + 1, last);
}

TakenBytes::TakenBytes(std::size_t num_cells)
    : num_leaves_(std::bit_ceil(std::max<std::size_t>(num_cells, 1))), nodes_(2 * num_leaves_) {}

template <typename Function>
void TakenBytes::for_nodes_of(const CellRange& cells, Function visit) const {
  std::size_t begin = cells.begin + num_leaves_, end = cells.end + num_leaves_;
  for (; begin < end; begin /= 2, end /= 2) {
    if (begin % 2 == 1) visit(begin++);
    if (end % 2 == 1) visit(--end);
  }
}

/// The nodes above those of `cells`, each once.
template <typename Function>
void TakenBytes::for_nodes_above(const CellRange& cells, Function visit) const {
  std::size_t first = cells.begin + num_leaves_, last = cells.end - 1 + num_leaves_;
  for (std::size_t width = 2; first > 1; width *= 2) {
    first /= 2;
    last /= 2;
    // Nodes of one level: what lies within the range is one of its nodes or below one.
    const std::size_t begin = first * width - num_leaves_, end = (last + 1) * width - num_leaves_;
    if (begin < cells.begin || begin + width > cells.end) visit(first);
    if (last != first && end > cells.end) visit(last);
  }
}

void TakenBytes::add(const CellRange& cells, const ByteRun& bytes) {
  for_nodes_of(cells, [&](std::size_t node) {
    nodes_[node].throughout.add(bytes);
    nodes_[node].sometime.add(bytes);
  });
  for_nodes_above(cells, [&](std::size_t node) { nodes_[node].sometime.add(bytes); });
}

void TakenBytes::clear() {
  for (Node& node : nodes_) {
    node.throughout.clear();
    node.sometime.clear();
  }
}

void TakenBytes::find(const CellRange& cells, std::vector<std::span<const ByteRun>>& taken) const {
  const auto append = [&](const ByteRuns& runs) {
    if (!runs.runs().empty()) taken.push_back(runs.runs());
  };
  for_nodes_of(cells, [&](std::size_t node) { append(nodes_[node].sometime); });
  for_nodes_above(cells, [&](std::size_t node) { append(nodes_[node].throughout); });
}

std::int64_t lowest_gap(std::vector<std::span<const ByteRun>>& taken, std::int64_t num_bytes) {
  std::int64_t at = 0;
  for (bool moves = true; moves;) {
    moves = false;
    for (std::span<const ByteRun>& runs : taken) {
      for (drop_until(runs, at); !runs.empty() && runs.front().begin < at + num_bytes; drop_until(runs, at)) {
        at = runs.front().end;
        moves = true;
      }
    }
  }
  return at;
}

std::int64_t tightest_gap(std::vector<std::span<const ByteRun>>& taken, std::int64_t num_bytes) {
  const auto begins_later = [](std::span<const ByteRun> a, std::span<const ByteRun> b) {
    return a.front().begin > b.front().begin;
  };
  std::int64_t at = 0, tightest_at = -1, tightest = std::numeric_limits<std::int64_t>::max();
  std::make_heap(taken.begin(), taken.end(), begins_later);
  while (!taken.empty()) {
    std::pop_heap(taken.begin(), taken.end(), begins_later);
    std::span<const ByteRun>& runs = taken.back();
    const std::int64_t gap = runs.front().begin - at;
    if (gap >= num_bytes && gap < tightest) {
      tightest = gap;
      tightest_at = at;
    }
    at = std::max(at, runs.front().end);
    drop_until(runs, at);
    if (runs.empty())
      taken.pop_back();
    else
      std::push_heap(taken.begin(), taken.end(), begins_later);
  }
  return tightest_at >= 0 ? tightest_at : at;
}

}  // namespace trainer
