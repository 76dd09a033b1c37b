#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/program/item_places.h"
#include "engine/program/taken_bytes.h"

namespace trainer {

/// Whether two items live at the same time at some time.
bool live_together(const PlacedItem& a, const PlacedItem& b);

/// A stretch of the timeline whose items get their places together, around those that have one already.
/// A member is an item without a place that lives in the window, by its position in `members()`.
///
/// Note [Many members]
/// A member's gap is found by looking at everything that has a place, which is fast for the many packings of few
/// members that a search makes. Where there are many, n of them look at n² / 2. There what is taken is kept by time
/// (Note [Taken bytes] in taken_bytes.h), of what is fixed once for all packings, and so each finds the same gap among
/// the runs of bytes that are taken in its life, which are few.
class WindowPacking {
 public:
  using Order = std::vector<std::int32_t>;
  enum class Fit : std::uint8_t { lowest, tightest };

  struct Result {
    std::vector<std::int64_t> offsets;  ///< by member
    std::int64_t total_bytes = 0;       ///< the highest end of a member
    double bytes_above_goal = 0;        ///< summed over the members that stick out

    bool is_better_than(const Result& other) const {
      return total_bytes != other.total_bytes ? total_bytes < other.total_bytes
                                              : bytes_above_goal < other.bytes_above_goal;
    }
  };

  /// `offsets` by item; below 0: without a place. The items must outlive the packing.
  WindowPacking(std::span<const PlacedItem> items, std::span<const std::int64_t> offsets, LiveInterval window);

  /// Each member of `order`, which need not be all, takes the lowest or the tightest gap between what lives at the same
  /// time and has a place by then.
  Result pack(const Order& order, Fit fit, std::int64_t goal_bytes);
  /// How many pairs of items a packing of so many members looks at.
  std::int64_t num_pairs(std::size_t num_members) const;

  const std::vector<std::int32_t>& members() const { return members_; }
  const PlacedItem& item(std::int32_t member) const { return items_[static_cast<std::size_t>(members_[member])]; }
  bool lives_throughout(std::int32_t member) const;

 private:
  /// An item at a place.
  struct Seat {
    std::int64_t offset = 0, end = 0;
    std::int64_t first_time = 0, last_time = 0;  ///< from the first moment of its life to the last
    std::int32_t item = -1;
    bool is_whole = true;  ///< it lives all that time
  };

  /// Moments by which lives of members begin and end.
  using Moments = std::vector<std::int64_t>;

  void find_fixed(std::span<const std::int64_t> offsets);
  CellRange cells_of(const LiveInterval& interval) const;
  void note(std::int32_t item, std::int64_t offset, TakenBytes& taken) const;
  void begin_many();
  Seat seat(std::int32_t item, std::int64_t offset) const;
  std::int64_t find_gap(const Seat& wanted, Fit fit) const;
  std::int64_t find_gap_of_many(std::int32_t item, Fit fit);

  std::span<const PlacedItem> items_;
  LiveInterval window_;
  std::vector<std::int32_t> members_;
  std::vector<Seat> fixed_;  ///< items that have a place and live together with a member, by offset
  std::vector<Seat> seats_;  ///< while packing: those and the members placed so far, by offset
  Moments moments_;          ///< between which members live, in order
  bool have_single_lives_ = true;
  // Of many members: what is fixed, and the members placed so far.
  std::optional<TakenBytes> taken_by_fixed_, taken_by_members_;
  std::vector<std::span<const ByteRun>> found_runs_;
};

}  // namespace trainer
