#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainer {

/// From `begin` up to, not including, `end` on a timeline; begin < end.
struct LiveInterval {
  std::int64_t begin = 0, end = 0;
};

/// Something that needs a place while it lives.
struct PlacedItem {
  std::int64_t num_bytes = 0;           ///< above 0; all items together below 2^62
  std::vector<LiveInterval> intervals;  ///< in order and disjoint, at least one
};

struct ItemPlaces {
  std::vector<std::int64_t> offsets;  ///< by item
  std::int64_t total_bytes = 0;       ///< the highest end of an item
};

// Note [Search for places]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// To pack items that live at different times into the fewest bytes is NP-hard (dynamic storage allocation; Garey and
// Johnson 1979, SR2), and nothing beats the peak of what lives at one time. So:
//
// - The timeline is cut into windows, and the windows are packed one after the other, the one with the highest peak
//   first; what lives in several windows keeps the place it got in the first of them. An item that lives all through a
//   window goes to its bottom: that costs nothing there.
// - A window is packed by taking its items in some order and giving each the lowest (or tightest) gap between those
//   that live at the same time and have a place already. For some order that packing is optimal. Five orders that
//   often are good are tried.
// - The best of them is then changed a little, again and again: an item that sticks out above the peak is taken
//   earlier, or one that is in its way later. A change stays if it makes less stick out. What is large is ordered so
//   before what is smaller gets a place, in several steps. That ends within 0.1 % of the peak, or after a number of
//   changes that depends on nothing but the number of items; where more than 1 % is left it begins anew, from the next
//   best of the usual orders.

/// Places for items such that no two which live at the same time overlap, in as few bytes as the search finds.
/// Deterministic: a function of the arguments. `cuts` are times, ascending, at which the search may divide the
/// timeline: best where few items live on. 10,000 items of one window take less than a second.
ItemPlaces place_items(std::span<const PlacedItem> items, std::span<const std::int64_t> cuts = {});

/// The highest sum of sizes that live at one time: no places need less.
std::int64_t peak_bytes(std::span<const PlacedItem> items);

}  // namespace trainer
