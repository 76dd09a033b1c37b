#include "engine/program/window_packing.h"

#include <algorithm>
#include <limits>

namespace trainer {

bool live_together(const PlacedItem& a, const PlacedItem& b) {
  std::size_t i = 0, j = 0;
  while (i < a.intervals.size() && j < b.intervals.size()) {
    if (a.intervals[i].end <= b.intervals[j].begin)
      ++i;
    else if (b.intervals[j].end <= a.intervals[i].begin)
      ++j;
    else
      return true;
  }
  return false;
}

WindowPacking::WindowPacking(std::span<const PlacedItem> items, std::span<const std::int64_t> offsets,
                             LiveInterval window)
    : items_(items), window_(window) {
  PlacedItem whole_window{1, {window}};
  for (std::size_t i = 0; i < items.size(); ++i)
    if (offsets[i] < 0 && live_together(items[i], whole_window)) members_.push_back(static_cast<std::int32_t>(i));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool is_near = offsets[i] >= 0 && std::any_of(members_.begin(), members_.end(), [&](std::int32_t m) {
                           return live_together(items[i], items[static_cast<std::size_t>(m)]);
                         });
    if (is_near) fixed_.push_back(seat(static_cast<std::int32_t>(i), offsets[i]));
  }
  std::sort(fixed_.begin(), fixed_.end(), [](const Seat& a, const Seat& b) { return a.offset < b.offset; });
}

WindowPacking::Result WindowPacking::pack(const Order& order, Fit fit, std::int64_t goal_bytes) {
  Result result;
  result.offsets.resize(members_.size());
  seats_.assign(fixed_.begin(), fixed_.end());
  for (const std::int32_t member : order) {
    Seat taken = seat(members_[member], 0);
    taken.offset = find_gap(taken, fit);
    taken.end += taken.offset;
    result.offsets[static_cast<std::size_t>(member)] = taken.offset;
    result.total_bytes = std::max(result.total_bytes, taken.end);
    result.bytes_above_goal += static_cast<double>(std::max<std::int64_t>(taken.end - goal_bytes, 0));
    const auto above = std::upper_bound(seats_.begin(), seats_.end(), taken.offset,
                                        [](std::int64_t offset, const Seat& other) { return offset < other.offset; });
    seats_.insert(above, taken);
  }
  return result;
}

std::int64_t WindowPacking::num_pairs(std::size_t num_members) const {
  return static_cast<std::int64_t>(num_members * (fixed_.size() + num_members / 2 + 1));
}

bool WindowPacking::lives_throughout(std::int32_t member) const {
  const std::vector<LiveInterval>& intervals = item(member).intervals;
  return std::any_of(intervals.begin(), intervals.end(), [&](const LiveInterval& interval) {
    return interval.begin <= window_.begin && interval.end >= window_.end;
  });
}

WindowPacking::Seat WindowPacking::seat(std::int32_t item, std::int64_t offset) const {
  const PlacedItem& placed = items_[static_cast<std::size_t>(item)];
  return {.offset = offset,
          .end = offset + placed.num_bytes,
          .first_time = placed.intervals.front().begin,
          .last_time = placed.intervals.back().end,
          .item = item,
          .is_whole = placed.intervals.size() == 1};
}

/// The offset of a gap for `wanted`, which stands at offset 0.
std::int64_t WindowPacking::find_gap(const Seat& wanted, Fit fit) const {
  std::int64_t at = 0, tightest_at = -1, tightest = std::numeric_limits<std::int64_t>::max();
  for (const Seat& other : seats_) {
    if (other.end <= at || other.first_time >= wanted.last_time || other.last_time <= wanted.first_time) continue;
    if (!(wanted.is_whole && other.is_whole) &&
        !live_together(items_[static_cast<std::size_t>(wanted.item)], items_[static_cast<std::size_t>(other.item)]))
      continue;
    const std::int64_t gap = other.offset - at;
    if (gap >= wanted.end && gap < tightest) {
      if (fit == Fit::lowest) return at;
      tightest = gap;
      tightest_at = at;
    }
    at = other.end;
  }
  return tightest_at >= 0 ? tightest_at : at;
}

}  // namespace trainer
