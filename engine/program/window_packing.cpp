#include "engine/program/window_packing.h"

#include <algorithm>
#include <limits>

namespace trainer {
namespace {

/// Places that one member may look at, more where each item lives once, which is quickly seen; beyond, Note [Many
/// members].
constexpr std::size_t most_looked_at = 1000, most_looked_at_of_single_lives = 8000;

}  // namespace

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
  for (std::size_t m = 0; m < members_.size(); ++m) {
    for (const LiveInterval& interval : item(static_cast<std::int32_t>(m)).intervals) {
      moments_.push_back(interval.begin);
      moments_.push_back(interval.end);
    }
  }
  std::sort(moments_.begin(), moments_.end());
  moments_.erase(std::unique(moments_.begin(), moments_.end()), moments_.end());
  if (!members_.empty()) find_fixed(offsets);
  const auto lives_once = [&](std::int32_t i) { return items_[static_cast<std::size_t>(i)].intervals.size() == 1; };
  have_single_lives_ = std::all_of(members_.begin(), members_.end(), lives_once);
}

/// Items with a place that live together with a member.
void WindowPacking::find_fixed(std::span<const std::int64_t> offsets) {
  // How many of the cells before one are in the life of a member.
  std::vector<std::int64_t> num_lived(moments_.size(), 0);
  std::vector<std::int64_t> changes(moments_.size(), 0);
  for (std::size_t m = 0; m < members_.size(); ++m) {
    for (const LiveInterval& interval : item(static_cast<std::int32_t>(m)).intervals) {
      const CellRange cells = cells_of(interval);
      ++changes[cells.begin];
      --changes[cells.end];
    }
  }
  std::int64_t num_alive = 0;
  for (std::size_t cell = 0; cell + 1 < moments_.size(); ++cell) {
    num_alive += changes[cell];
    num_lived[cell + 1] = num_lived[cell] + (num_alive > 0 ? 1 : 0);
  }
  const auto lives_beside_member = [&](const LiveInterval& interval) {
    const CellRange cells = cells_of(interval);
    return cells.begin < cells.end && num_lived[cells.end] > num_lived[cells.begin];
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const std::vector<LiveInterval>& intervals = items_[i].intervals;
    if (offsets[i] >= 0 && std::any_of(intervals.begin(), intervals.end(), lives_beside_member))
      fixed_.push_back(seat(static_cast<std::int32_t>(i), offsets[i]));
  }
  std::sort(fixed_.begin(), fixed_.end(), [](const Seat& a, const Seat& b) { return a.offset < b.offset; });
}

/// The cells, of which cell i is between moments i and i + 1, that the interval touches; it need not be a member's.
CellRange WindowPacking::cells_of(const LiveInterval& interval) const {
  const auto above = std::upper_bound(moments_.begin(), moments_.end(), interval.begin);
  const auto end = std::lower_bound(moments_.begin(), moments_.end(), interval.end);
  const auto begin = above == moments_.begin() ? above : above - 1;
  const auto last = end == moments_.end() ? end - 1 : end;
  return {static_cast<std::size_t>(begin - moments_.begin()), static_cast<std::size_t>(last - moments_.begin())};
}

WindowPacking::Result WindowPacking::pack(const Order& order, Fit fit, std::int64_t goal_bytes) {
  Result result;
  result.offsets.resize(members_.size());
  const std::size_t most = have_single_lives_ ? most_looked_at_of_single_lives : most_looked_at;
  const bool are_many = fixed_.size() + order.size() / 2 > most;
  if (are_many)
    begin_many();
  else
    seats_.assign(fixed_.begin(), fixed_.end());
  for (const std::int32_t member : order) {
    Seat taken = seat(members_[member], 0);
    taken.offset = are_many ? find_gap_of_many(taken.item, fit) : find_gap(taken, fit);
    taken.end += taken.offset;
    result.offsets[static_cast<std::size_t>(member)] = taken.offset;
    result.total_bytes = std::max(result.total_bytes, taken.end);
    result.bytes_above_goal += static_cast<double>(std::max<std::int64_t>(taken.end - goal_bytes, 0));
    if (are_many) {
      note(taken.item, taken.offset, *taken_by_members_);
      continue;
    }
    const auto above = std::upper_bound(seats_.begin(), seats_.end(), taken.offset,
                                        [](std::int64_t offset, const Seat& other) { return offset < other.offset; });
    seats_.insert(above, taken);
  }
  return result;
}

void WindowPacking::note(std::int32_t item, std::int64_t offset, TakenBytes& taken) const {
  const PlacedItem& placed = items_[static_cast<std::size_t>(item)];
  for (const LiveInterval& interval : placed.intervals) {
    const CellRange cells = cells_of(interval);
    if (cells.begin < cells.end) taken.add(cells, {offset, offset + placed.num_bytes});
  }
}

/// See Note [Many members].
void WindowPacking::begin_many() {
  if (taken_by_fixed_) return taken_by_members_->clear();
  taken_by_fixed_.emplace(moments_.size() - 1);
  taken_by_members_.emplace(moments_.size() - 1);
  for (const Seat& seat : fixed_) note(seat.item, seat.offset, *taken_by_fixed_);
}

std::int64_t WindowPacking::find_gap_of_many(std::int32_t item, Fit fit) {
  const PlacedItem& placed = items_[static_cast<std::size_t>(item)];
  found_runs_.clear();
  for (const LiveInterval& interval : placed.intervals) {
    taken_by_fixed_->find(cells_of(interval), found_runs_);
    taken_by_members_->find(cells_of(interval), found_runs_);
  }
  return fit == Fit::lowest ? lowest_gap(found_runs_, placed.num_bytes) : tightest_gap(found_runs_, placed.num_bytes);
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
