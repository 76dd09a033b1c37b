#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/config/layer_spec.h"

namespace trainer {

/// What is known of the sizes of some images, so that memory for any of them can be counted in whole numbers.
struct SizeBounds {
  std::int64_t lowest = 0, highest = 0, narrowest = 0, widest = 0;  ///< heights and widths
  std::int64_t most_pixels = 0;
  std::int64_t longest_shorter = 0;  ///< of the shorter sides
  Pair most_aspect{1, 1};            ///< the longer and the shorter side of the image where their ratio is largest

  static SizeBounds of_one(Pair size) {
    const auto [shorter, longer] = std::minmax(size[0], size[1]);
    return {size[0], size[0], size[1], size[1], size[0] * size[1], shorter, {longer, shorter}};
  }
  void add(Pair size) { *this = highest == 0 ? of_one(size) : joined(of_one(size)); }
  /// Whether an image of that size is one that is counted.
  bool contain(Pair size) const {
    const SizeBounds both = joined(of_one(size));
    return both == *this;
  }
  bool are_one_size() const { return lowest == highest && narrowest == widest; }

  friend bool operator==(const SizeBounds&, const SizeBounds&) = default;

 private:
  SizeBounds joined(const SizeBounds& other) const {
    const bool is_longer = other.most_aspect[0] * most_aspect[1] > most_aspect[0] * other.most_aspect[1];
    return {std::min(lowest, other.lowest),
            std::max(highest, other.highest),
            std::min(narrowest, other.narrowest),
            std::max(widest, other.widest),
            std::max(most_pixels, other.most_pixels),
            std::max(longest_shorter, other.longest_shorter),
            is_longer ? other.most_aspect : most_aspect};
  }
};

}  // namespace trainer
