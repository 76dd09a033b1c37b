#include "engine/program/item_places.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "engine/program/window_packing.h"

using namespace trainer;

namespace {

using Items = std::vector<PlacedItem>;

bool meet(const LiveInterval& a, const LiveInterval& b) { return a.begin < b.end && b.begin < a.end; }

bool meet(const PlacedItem& a, const PlacedItem& b) {
  for (const LiveInterval& one : a.intervals)
    for (const LiveInterval& other : b.intervals)
      if (meet(one, other)) return true;
  return false;
}

/// The highest sum at any begin of a life, counted item by item.
std::int64_t counted_peak(const Items& items) {
  std::int64_t peak = 0;
  for (const PlacedItem& at : items) {
    for (const LiveInterval& moment : at.intervals) {
      std::int64_t sum = 0;
      for (const PlacedItem& item : items) {
        for (const LiveInterval& life : item.intervals)
          if (life.begin <= moment.begin && moment.begin < life.end) sum += item.num_bytes;
      }
      peak = std::max(peak, sum);
    }
  }
  return peak;
}

/// Nothing overlaps, and the total is the highest end.
void check_places(const Items& items, const ItemPlaces& places) {
  REQUIRE(places.offsets.size() == items.size());
  std::int64_t end = 0, num_overlaps = 0, num_below_zero = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    num_below_zero += places.offsets[i] < 0 ? 1 : 0;
    end = std::max(end, places.offsets[i] + items[i].num_bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const bool share = places.offsets[i] < places.offsets[j] + items[j].num_bytes &&
                         places.offsets[j] < places.offsets[i] + items[i].num_bytes;
      if (share && meet(items[i], items[j])) ++num_overlaps;
    }
  }
  CHECK(num_overlaps == 0);
  CHECK(num_below_zero == 0);
  CHECK(places.total_bytes == end);
}

/// The fewest bytes: every item tried at every offset that sums of other sizes can make, one item after the other.
std::int64_t fewest_bytes(const Items& items) {
  std::set<std::int64_t> sums = {0};
  for (const PlacedItem& item : items) {
    const std::set<std::int64_t> before = sums;
    for (const std::int64_t sum : before) sums.insert(sum + item.num_bytes);
  }
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> offsets(items.size(), 0);
  const auto place_from = [&](auto&& self, std::size_t i, std::int64_t total) -> void {
    if (total >= best) return;
    if (i == items.size()) {
      best = total;
      return;
    }
    for (const std::int64_t offset : sums) {
      bool is_free = true;
      for (std::size_t j = 0; j < i && is_free; ++j) {
        is_free = !meet(items[i], items[j]) || offset >= offsets[j] + items[j].num_bytes ||
                  offsets[j] >= offset + items[i].num_bytes;
      }
      if (!is_free) continue;
      offsets[i] = offset;
      self(self, i + 1, std::max(total, offset + items[i].num_bytes));
    }
  };
  place_from(place_from, 0, 0);
  return best;
}

/// Items of up to `most_bytes` that live up to `longest`, some of them twice.
Items random_items(std::mt19937& random, std::size_t count, std::int64_t most_bytes, std::int64_t end,
                   std::int64_t longest) {
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  Items items;
  for (std::size_t i = 0; i < count; ++i) {
    PlacedItem item{1 + below(most_bytes), {}};
    std::int64_t begin = below(end);
    item.intervals.push_back({begin, begin + 1 + below(longest)});
    if (below(4) == 0) {
      begin = item.intervals.back().end + 1 + below(longest);
      item.intervals.push_back({begin, begin + 1 + below(longest)});
    }
    items.push_back(item);
  }
  return items;
}

/// The buffers of a training step of `num_layers`, of random sizes: kept activations, what lives only within a layer,
/// and gradients of weights that stay. As many again for each of `num_steps`, which share the gradients.
Items training_items(std::mt19937& random, std::int64_t num_layers, std::int64_t num_steps,
                     std::vector<std::int64_t>& cuts) {
  const auto size = [&](std::int64_t most) {
    return 512 * (1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)));
  };
  const std::int64_t length = 8 * num_layers;
  Items items;
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    const std::int64_t forward = 4 * layer, backward = length - 4 * layer - 4;
    const std::int64_t kept = size(4000), within = size(4000), gradient = size(8000);
    for (std::int64_t step = 0; step < num_steps; ++step) {
      const std::int64_t begin = step * length;
      items.push_back({kept, {{begin + forward, begin + backward + 4}}});
      items.push_back({within, {{begin + forward + 1, begin + forward + 3}}});
      items.push_back({gradient, {{begin + backward, begin + backward + 2}}});
    }
    items.push_back({size(500), {{backward + 1, num_steps * length}}});
  }
  for (std::int64_t step = 1; step < num_steps; ++step) cuts.push_back(step * length);
  return items;
}

/// The gap for an item among those that have a place, found by looking at each.
std::int64_t found_gap(const Items& items, const std::vector<std::int64_t>& offsets, std::size_t wanted,
                       WindowPacking::Fit fit) {
  std::vector<LiveInterval> taken;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (offsets[i] >= 0 && meet(items[i], items[wanted]))
      taken.push_back({offsets[i], offsets[i] + items[i].num_bytes});
  std::sort(taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::int64_t at = 0, best_at = -1, best = std::numeric_limits<std::int64_t>::max();
  for (const LiveInterval& bytes : taken) {
    const std::int64_t gap = bytes.begin - at;
    if (gap >= items[wanted].num_bytes && gap < best) {
      best = gap;
      best_at = at;
      if (fit == WindowPacking::Fit::lowest) break;
    }
    at = std::max(at, bytes.end);
  }
  return best_at >= 0 ? best_at : at;
}

}  // namespace

TEST_CASE("nothing to place takes nothing, and one item its own size") {
  CHECK(place_items({}).total_bytes == 0);
  CHECK(peak_bytes(std::span<const PlacedItem>()) == 0);
  const Items one = {{512, {{3, 4}}}};
  CHECK(place_items(one).offsets == std::vector<std::int64_t>{0});
  CHECK(place_items(one).total_bytes == 512);
}

TEST_CASE("items that live one after the other share their bytes, those that meet do not") {
  // The last moment of a life is the one before its end.
  const Items chain = {{7, {{0, 5}}}, {5, {{5, 9}}}, {7, {{9, 10}, {12, 13}}}, {3, {{10, 12}}}};
  CHECK(place_items(chain).total_bytes == 7);
  const Items together = {{7, {{0, 6}}}, {5, {{5, 9}}}, {3, {{0, 2}, {8, 9}}}};
  check_places(together, place_items(together));
  CHECK(peak_bytes(together) == 12);
  CHECK(place_items(together).total_bytes == 15);  // each meets each, though never all at one time
}

TEST_CASE("the peak is the highest sum at one moment") {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const Items items = random_items(random, 1 + static_cast<std::size_t>(i) % 37, 1000, 40, 15);
    REQUIRE(peak_bytes(items) == counted_peak(items));
  }
}

TEST_CASE("small cases get the places that trying everything finds") {
  std::mt19937 random(11);
  int num_above_peak = 0;
  for (int i = 0; i < 300; ++i) {
    const Items items = random_items(random, 1 + static_cast<std::size_t>(i) % 6, 6, 12, 7);
    const ItemPlaces places = place_items(items);
    check_places(items, places);
    const std::int64_t fewest = fewest_bytes(items);
    REQUIRE(places.total_bytes == fewest);
    num_above_peak += fewest > counted_peak(items) ? 1 : 0;
  }
  INFO(num_above_peak << " of them have no places within the peak");
  CHECK(num_above_peak > 0);
}

TEST_CASE("random items of any number do not overlap, with cuts and without", "[exhaustive]") {
  std::mt19937 random(5);
  for (const std::size_t count : {2, 3, 31, 127, 512, 1009}) {
    const Items items = random_items(random, count, 513, static_cast<std::int64_t>(count), 97);
    std::vector<std::int64_t> cuts;
    for (std::int64_t cut = -5; cut < static_cast<std::int64_t>(count) + 300; cut += 41) cuts.push_back(cut);
    const ItemPlaces whole = place_items(items), cut = place_items(items, cuts);
    check_places(items, whole);
    check_places(items, cut);
    CHECK(whole.total_bytes >= counted_peak(items));
    CHECK(place_items(items, cuts).offsets == cut.offsets);  // the same every time
  }
}

TEST_CASE("what a training step holds is placed within a hundredth of its peak") {
  std::mt19937 random(17);
  for (const std::int64_t num_layers : {1, 2, 13, 40}) {
    for (const std::int64_t num_steps : {1, 2, 3}) {
      std::vector<std::int64_t> cuts;
      const Items items = training_items(random, num_layers, num_steps, cuts);
      const ItemPlaces places = place_items(items, cuts);
      check_places(items, places);
      INFO(num_layers << " layers, " << num_steps << " micro-batches");
      CHECK(static_cast<double>(places.total_bytes) <= 1.01 * static_cast<double>(counted_peak(items)));
    }
  }
}

TEST_CASE("where the best of the usual orders leads nowhere, another does") {
  std::ifstream file(TRAINER_SOURCE_DIR "/tests/program/hard_places.txt");
  REQUIRE(file.good());
  Items items;
  std::vector<std::int64_t> cuts;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream numbers(line);
    if (std::string word; line.starts_with("cuts")) {
      numbers >> word;
      for (std::int64_t cut = 0; numbers >> cut;) cuts.push_back(cut);
      continue;
    }
    PlacedItem& item = items.emplace_back();
    numbers >> item.num_bytes;
    for (LiveInterval life; numbers >> life.begin >> life.end;) item.intervals.push_back(life);
  }
  REQUIRE(items.size() == 863);
  const ItemPlaces places = place_items(items, cuts);
  check_places(items, places);
  CHECK(static_cast<double>(places.total_bytes) <= 1.01 * static_cast<double>(counted_peak(items)));
}

TEST_CASE("each of many members of a window takes the gap that looking at everything finds") {
  std::mt19937 random(7);
  std::vector<std::int64_t> no_cuts;
  Items layers = training_items(random, 230, 2, no_cuts);
  layers.push_back({512, {{0, 5}, {9, 11}}});
  for (const Items& items : {random_items(random, 1500, 60, 3000, 90), layers}) {
    // Every other item has a place, some where no member lives.
    std::vector<std::int64_t> given(items.size(), -1);
    for (std::size_t i = 0; i < items.size(); i += 2) given[i] = static_cast<std::int64_t>(random() % 2000);
    std::int64_t end = 0;
    for (const PlacedItem& item : items) end = std::max(end, item.intervals.back().end);
    WindowPacking packing(items, given, {end / 10, end});
    WindowPacking::Order order(packing.members().size());
    std::iota(order.begin(), order.end(), 0);
    for (const WindowPacking::Fit fit : {WindowPacking::Fit::lowest, WindowPacking::Fit::tightest}) {
      std::shuffle(order.begin(), order.end(), random);
      const WindowPacking::Result result = packing.pack(order, fit, 0);
      std::vector<std::int64_t> offsets = given;
      std::int64_t num_different = 0;
      for (const std::int32_t member : order) {
        const auto item = static_cast<std::size_t>(packing.members()[static_cast<std::size_t>(member)]);
        offsets[item] = found_gap(items, offsets, item, fit);
        num_different += offsets[item] != result.offsets[static_cast<std::size_t>(member)] ? 1 : 0;
      }
      CHECK(num_different == 0);
    }
  }
}

TEST_CASE("placing ten thousand buffers", "[.benchmark]") {
  std::mt19937 random(1);
  std::vector<std::int64_t> cuts;
  const auto time = [](const char* what, const Items& items, std::span<const std::int64_t> at) {
    const std::clock_t begin = std::clock();  // of this process, whatever else the machine does
    const ItemPlaces places = place_items(items, at);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    check_places(items, places);
    std::cout << what << ": " << items.size() << " buffers in " << seconds << " s of processor time, "
              << static_cast<double>(places.total_bytes) / static_cast<double>(peak_bytes(items)) << " of the peak\n";
  };
  time("one step of 2,500 layers", training_items(random, 2500, 1, cuts), {});
  const Items three = training_items(random, 1000, 3, cuts);
  time("three micro-batches of 1,000 layers", three, cuts);
  time("anything", random_items(random, 10'000, 4096, 20'000, 600), {});
}
