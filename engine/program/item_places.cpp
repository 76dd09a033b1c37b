#include "engine/program/item_places.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "engine/program/window_packing.h"

namespace trainer {
namespace {

using Order = WindowPacking::Order;
using Fit = WindowPacking::Fit;
using Packing = WindowPacking::Result;

/// Pairs of items that the search in one window may look at: for the usual orders; for one search of changes, of which
/// there are so many while more than a hundredth above the goal is taken.
constexpr std::int64_t pairs_of_orders = 150'000'000, pairs_of_changes = 10'000'000;
constexpr std::size_t num_searches = 10;
constexpr std::int64_t most_changes = 30'000;
/// Of more windows, as the steps of pipelines have, all together get as many changes as so many by themselves.
constexpr std::size_t most_whole_windows = 16, windows_of_many = 4;
/// Of the peak: what is at least the first part of it gets its order first, then what is at least the second, and so
/// on.
constexpr std::array<std::int64_t, 6> parts_of_large = {30, 60, 120, 240, 480, 960};

/// The sum of sizes that live from a time on, until the next one.
struct LiveBytes {
  std::int64_t time = 0, num_bytes = 0;
};

std::vector<LiveBytes> live_bytes(std::span<const PlacedItem> items) {
  std::vector<LiveBytes> changes;
  for (const PlacedItem& item : items) {
    for (const LiveInterval& interval : item.intervals) {
      changes.push_back({interval.begin, item.num_bytes});
      changes.push_back({interval.end, -item.num_bytes});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const LiveBytes& a, const LiveBytes& b) { return a.time < b.time; });
  std::vector<LiveBytes> live;
  std::int64_t sum = 0;
  for (const LiveBytes& change : changes) {
    sum += change.num_bytes;
    if (live.empty() || live.back().time < change.time) live.push_back({change.time, 0});
    live.back().num_bytes = sum;
  }
  return live;
}

/// Answers how many bytes live at most within an interval: the highest of pairs, of pairs of these, and so on.
class HighestLive {
 public:
  explicit HighestLive(const std::vector<LiveBytes>& live) : live_(live), nodes_(2 * live.size(), 0) {
    for (std::size_t i = 0; i < live.size(); ++i) nodes_[live.size() + i] = live[i].num_bytes;
    for (std::size_t i = live.size(); i-- > 1;) nodes_[i] = std::max(nodes_[2 * i], nodes_[2 * i + 1]);
  }

  std::int64_t between(const LiveInterval& interval) const {
    const std::size_t behind = at_or_after(interval.begin);
    const bool is_before = behind > 0 && (behind == live_.size() || live_[behind].time > interval.begin);
    std::size_t begin = live_.size() + (is_before ? behind - 1 : behind);
    std::size_t end = live_.size() + at_or_after(interval.end);
    std::int64_t highest = 0;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) highest = std::max(highest, nodes_[begin++]);
      if (end % 2 == 1) highest = std::max(highest, nodes_[--end]);
    }
    return highest;
  }

 private:
  std::size_t at_or_after(std::int64_t time) const {
    const auto found = std::lower_bound(live_.begin(), live_.end(), time,
                                        [](const LiveBytes& step, std::int64_t value) { return step.time < value; });
    return static_cast<std::size_t>(found - live_.begin());
  }

  const std::vector<LiveBytes>& live_;
  std::vector<std::int64_t> nodes_;  ///< below node i are 2 i and 2 i + 1; the last half are those of `live`
};

/// The search in one window; see Note [Search for places].
class WindowSearch {
 public:
  WindowSearch(WindowPacking& packing, const HighestLive& highest_live, std::int64_t goal_bytes,
               std::int64_t most_pairs)
      : packing_(packing), highest_live_(highest_live), goal_bytes_(goal_bytes), most_pairs_(most_pairs) {}

  Packing run() {
    try_usual_orders();
    if (!is_good_enough() && packing_.members().size() > num_fixed_) try_changes();
    return best_;
  }

 private:
  struct Start {
    Packing packing;
    Order order;
    Fit fit = Fit::lowest;
  };

  bool is_within(const Packing& packing, std::int64_t part) const {
    return packing.total_bytes <= goal_bytes_ + goal_bytes_ / part;
  }
  bool is_good_enough() const { return is_within(best_, 1000); }

  void try_usual_orders() {
    Order order(packing_.members().size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> area(order.size());
    std::vector<std::int64_t> lifetime(order.size(), 0), highest(order.size(), 0);
    for (const std::int32_t m : order) {
      for (const LiveInterval& interval : packing_.item(m).intervals) {
        lifetime[m] += interval.end - interval.begin;
        highest[m] = std::max(highest[m], highest_live_.between(interval));
      }
      area[m] = static_cast<double>(lifetime[m]) * static_cast<double>(size(m));
    }
    // What lives all through the window comes first, the longest lifetime at the bottom.
    const auto middle =
        std::stable_partition(order.begin(), order.end(), [&](std::int32_t m) { return packing_.lives_throughout(m); });
    std::stable_sort(order.begin(), middle, [&](std::int32_t a, std::int32_t b) { return lifetime[a] > lifetime[b]; });
    num_fixed_ = static_cast<std::size_t>(middle - order.begin());

    std::int64_t num_pairs = 0;
    const auto try_order = [&](auto&& comes_before) {
      std::sort(middle, order.end());
      std::stable_sort(middle, order.end(), comes_before);
      for (const Fit fit : {Fit::lowest, Fit::tightest}) {
        num_pairs += packing_.num_pairs(order.size());
        if (!best_.offsets.empty() && (is_good_enough() || num_pairs > pairs_of_orders)) return;
        starts_.push_back({try_packing(order, fit), order, fit});
      }
    };
    const auto is_larger = [&](std::int32_t a, std::int32_t b) { return size(a) > size(b); };
    // What lives at the highest moment first, and so on downwards.
    try_order([&](std::int32_t a, std::int32_t b) {
      return highest[a] != highest[b] ? highest[a] > highest[b] : is_larger(a, b);
    });
    try_order(is_larger);
    try_order([&](std::int32_t a, std::int32_t b) { return area[a] > area[b]; });
    try_order([&](std::int32_t a, std::int32_t b) {
      return lifetime[a] != lifetime[b] ? lifetime[a] > lifetime[b] : is_larger(a, b);
    });
    const auto birth = [&](std::int32_t m) { return packing_.item(m).intervals.front().begin; };
    try_order([&](std::int32_t a, std::int32_t b) { return birth(a) < birth(b); });
  }

  /// From the best of the usual orders, then from the second best, and so on: where one leads nowhere, another may.
  void try_changes() {
    std::vector<Start> starts = std::move(starts_);
    std::stable_sort(starts.begin(), starts.end(),
                     [](const Start& a, const Start& b) { return a.packing.is_better_than(b.packing); });
    for (std::size_t i = 0; i < num_searches && (i == 0 || !is_within(best_, 100)); ++i)
      search_changes(starts[i % starts.size()]);
  }

  /// Changes the order of what is large, then that with what is smaller behind it, and so on: where few things move at
  /// a time, the few changes that help are found.
  void search_changes(const Start& start) {
    pairs_looked_at_ = 0;
    fit_ = start.fit;
    const auto num_fixed = static_cast<std::ptrdiff_t>(num_fixed_);
    Order order(start.order.begin(), start.order.begin() + num_fixed),
        rest(start.order.begin() + num_fixed, start.order.end());
    const auto take = [&](std::int64_t least_bytes) {
      const bool is_first = order.size() == num_fixed_;
      const auto taken =
          std::stable_partition(rest.begin(), rest.end(), [&](std::int32_t m) { return size(m) >= least_bytes; });
      // The first keep the order that was best; the others stand behind.
      if (!is_first)
        std::stable_sort(rest.begin(), taken, [&](std::int32_t a, std::int32_t b) { return size(a) > size(b); });
      if (taken == rest.begin()) return;
      order.insert(order.end(), rest.begin(), taken);
      rest.erase(rest.begin(), taken);
      order = improved(order);
    };
    for (const std::int64_t parts : parts_of_large) take(goal_bytes_ / parts);
    take(0);
    try_packing(order, fit_);
  }

  /// Keeps a packing that is the best so far.
  Packing try_packing(const Order& order, Fit fit) {
    Packing packing = packing_.pack(order, fit, goal_bytes_);
    if (best_.offsets.empty() || packing.is_better_than(best_)) best_ = packing;
    return packing;
  }

  /// The best order that changes of `order`, which may be of some members only, lead to.
  Order improved(Order order) {
    current_ = packing_.pack(order, fit_, goal_bytes_);
    Packing best = current_;
    Order best_order = order;
    const std::int64_t pairs = packing_.num_pairs(order.size()) + static_cast<std::int64_t>(8 * order.size());
    for (std::int64_t i = 1; i <= most_changes && !is_within(best, 1000); ++i) {
      pairs_looked_at_ += pairs;
      if (pairs_looked_at_ > most_pairs_) break;
      Order changed = order;
      if (!change(changed)) continue;
      Packing packing = packing_.pack(changed, fit_, goal_bytes_);
      if (packing.is_better_than(best)) {
        best = packing;
        best_order = changed;
      }
      // Now and then a step back is taken, so that the search does not end in a dead end.
      const bool steps_back =
          random(50) == 0 && packing.total_bytes - goal_bytes_ < 2 * (best.total_bytes - goal_bytes_);
      if (current_.is_better_than(packing) && !steps_back) continue;
      current_ = std::move(packing);
      order = std::move(changed);
    }
    return best_order;
  }

  /// Moves one member of the order elsewhere; false where there is nothing to move.
  bool change(Order& order) {
    sticking_out_.clear();
    for (std::size_t i = num_fixed_; i < order.size(); ++i)
      if (current_.offsets[order[i]] + size(order[i]) > goal_bytes_) sticking_out_.push_back(i);
    if (sticking_out_.empty()) return false;
    const std::size_t out = sticking_out_[random(sticking_out_.size())];
    const auto at = [&](std::size_t position) { return order.begin() + static_cast<std::ptrdiff_t>(position); };
    const std::size_t kind = random(4);
    if (kind == 0) {  // earlier
      std::rotate(at(num_fixed_ + random(out + 1 - num_fixed_)), at(out), at(out + 1));
      return true;
    }
    if (kind == 1) {  // any two
      std::iter_swap(at(num_fixed_ + random(order.size() - num_fixed_)),
                     at(num_fixed_ + random(order.size() - num_fixed_)));
      return true;
    }
    in_the_way_.clear();
    for (std::size_t i = num_fixed_; i < out; ++i)
      if (live_together(packing_.item(order[i]), packing_.item(order[out]))) in_the_way_.push_back(i);
    if (in_the_way_.empty()) return false;
    const std::size_t moved = in_the_way_[random(in_the_way_.size())];
    const std::size_t target = kind == 2 ? out : num_fixed_ + random(out + 1 - num_fixed_);
    if (target >= moved)
      std::rotate(at(moved), at(moved + 1), at(target + 1));
    else
      std::rotate(at(target), at(moved), at(moved + 1));
    return true;
  }

  std::int64_t size(std::int32_t member) const { return packing_.item(member).num_bytes; }
  /// Below `count`. (The standard's distributions are not the same everywhere, its generators are.)
  std::size_t random(std::size_t count) { return static_cast<std::size_t>(generator_() % count); }

  WindowPacking& packing_;
  const HighestLive& highest_live_;
  const std::int64_t goal_bytes_;
  std::size_t num_fixed_ = 0;  ///< members at the front of each order that stay there
  Packing best_, current_;
  std::vector<Start> starts_;  ///< the usual orders
  Fit fit_ = Fit::lowest;      ///< of the search at hand
  std::vector<std::size_t> sticking_out_, in_the_way_;
  const std::int64_t most_pairs_;     ///< of one search of changes
  std::int64_t pairs_looked_at_ = 0;  ///< in changes
  std::mt19937_64 generator_;
};

/// The windows between cuts, the one of the highest peak first.
std::vector<LiveInterval> windows_between(std::span<const std::int64_t> cuts, const std::vector<LiveBytes>& live,
                                          const HighestLive& highest_live) {
  std::vector<LiveInterval> windows;
  std::int64_t begin = live.front().time;
  const std::int64_t end = live.back().time;
  for (const std::int64_t cut : cuts) {
    if (cut <= begin || cut >= end) continue;
    windows.push_back({begin, cut});
    begin = cut;
  }
  windows.push_back({begin, end});
  std::stable_sort(windows.begin(), windows.end(), [&](const LiveInterval& a, const LiveInterval& b) {
    return highest_live.between(a) > highest_live.between(b);
  });
  return windows;
}

ItemPlaces place_in_windows(std::span<const PlacedItem> items, std::span<const LiveInterval> windows,
                            const HighestLive& highest_live, std::int64_t peak) {
  ItemPlaces places;
  places.offsets.assign(items.size(), -1);
  const std::int64_t most_pairs =
      windows.size() > most_whole_windows
          ? pairs_of_changes * static_cast<std::int64_t>(windows_of_many) / static_cast<std::int64_t>(windows.size())
          : pairs_of_changes;
  for (const LiveInterval& window : windows) {
    WindowPacking packing(items, places.offsets, window);
    if (packing.members().empty()) continue;
    const Packing found = WindowSearch(packing, highest_live, std::max(peak, places.total_bytes), most_pairs).run();
    for (std::size_t m = 0; m < found.offsets.size(); ++m)
      places.offsets[static_cast<std::size_t>(packing.members()[m])] = found.offsets[m];
    places.total_bytes = std::max(places.total_bytes, found.total_bytes);
  }
  return places;
}

}  // namespace

ItemPlaces place_items(std::span<const PlacedItem> items, std::span<const std::int64_t> cuts) {
  if (items.empty()) return {};
  const std::vector<LiveBytes> live = live_bytes(items);
  const std::int64_t peak = peak_bytes(items);
  const HighestLive highest_live(live);
  return place_in_windows(items, windows_between(cuts, live, highest_live), highest_live, peak);
}

std::int64_t peak_bytes(std::span<const PlacedItem> items) {
  std::int64_t peak = 0;
  for (const LiveBytes& step : live_bytes(items)) peak = std::max(peak, step.num_bytes);
  return peak;
}

}  // namespace trainer
