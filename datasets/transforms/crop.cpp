#include "datasets/transforms/crop.h"

#include <algorithm>
#include <cstring>

#include "engine/errors.h"

namespace trainer {

namespace {

/// One axis of a crop.
struct CroppedAxis {
  std::int64_t first = 0, count = 0;
  std::int64_t size = 0;  ///< of the image
  PadMode mode = PadMode::zeros;

  /// The pixel of the image that is shown at `i`; −1: the border of one number.
  std::int64_t pixel_at(std::int64_t i) const {
    const std::int64_t pixel = first + i;
    if (pixel >= 0 && pixel < size) return pixel;
    switch (mode) {
      case PadMode::zeros:
        return -1;
      case PadMode::replicate:
        return std::clamp<std::int64_t>(pixel, 0, size - 1);
      case PadMode::reflect:
        break;
    }
    if (size == 1) return 0;
    // Mirrored as often as it takes, as numpy.pad does.
    const std::int64_t period = 2 * (size - 1);
    const std::int64_t within = ((pixel % period) + period) % period;
    return std::min(within, period - within);
  }
  /// Of the shown pixels those that lie inside the image themselves: from, to.
  std::int64_t inside_begin() const { return std::clamp<std::int64_t>(-first, 0, count); }
  std::int64_t inside_end() const { return std::clamp(size - first, inside_begin(), count); }

  void range_of(std::int64_t& begin, std::int64_t& length) const {
    std::int64_t least = size, most = -1;
    const auto add = [&](std::int64_t i) {
      const std::int64_t pixel = pixel_at(i);
      if (pixel < 0) return;
      least = std::min(least, pixel);
      most = std::max(most, pixel);
    };
    if (inside_begin() < inside_end()) {
      add(inside_begin());
      add(inside_end() - 1);
    }
    // A border of one number shows none; a long one is at an end of the image before it is walked to its own end.
    if (mode != PadMode::zeros) {
      for (std::int64_t i = 0; i < inside_begin() && !(least == 0 && most == size - 1); ++i) add(i);
      for (std::int64_t i = inside_end(); i < count && !(least == 0 && most == size - 1); ++i) add(i);
    }
    begin = most < 0 ? 0 : least;
    length = most < 0 ? 1 : most - least + 1;
  }
};

/// Asks for bytes that are read soon. Processors foresee pixels that are read in their order, but not rows whose pixels
/// are read from their ends on, and not the gaps between rows: a mirrored crop of what lies far away takes three times
/// as long without.
void prefetch(const std::uint8_t* bytes, std::int64_t num_bytes) {
  constexpr std::int64_t cache_line = 64;
  for (std::int64_t i = 0; i < num_bytes; i += cache_line) __builtin_prefetch(bytes + i);
}

CroppedAxis rows_of(const CropStep& step, Pair size) {
  return {step.region.top, step.region.height, size[0], step.mode};
}
CroppedAxis columns_of(const CropStep& step, Pair size) {
  return {step.region.left, step.region.width, size[1], step.mode};
}

}  // namespace

bool lies_inside(const Region& region, Pair size) {
  return region.top >= 0 && region.left >= 0 && region.top + region.height <= size[0] &&
         region.left + region.width <= size[1];
}

Region pixels_shown(const CropStep& step, Pair size) {
  Region shown;
  rows_of(step, size).range_of(shown.top, shown.height);
  columns_of(step, size).range_of(shown.left, shown.width);
  return shown;
}

void crop(const CropStep& step, const Mirroring& mirroring, Pair size, const Image& source, const Region& place,
          std::uint8_t fill, Image& target) {
  const Region shown = pixels_shown(step, size);
  require_internal(shown.top >= place.top && shown.left >= place.left &&
                       shown.top + shown.height <= place.top + place.height &&
                       shown.left + shown.width <= place.left + place.width,
                   "a crop reads only pixels that are there");
  const CroppedAxis rows = rows_of(step, size), columns = columns_of(step, size);
  const std::int64_t channels = source.channels();
  target.reshape(rows.count, columns.count, channels);
  const std::int64_t inside_begin = columns.inside_begin(), inside_end = columns.inside_end();
  const std::int64_t num_inside = inside_end - inside_begin;
  const std::int64_t inside_left = num_inside > 0 ? columns.first + inside_begin - place.left : 0;

  for (std::int64_t y = 0; y < rows.count; ++y) {
    std::uint8_t* const target_row = target.row(mirroring.down ? rows.count - 1 - y : y);
    const std::int64_t shown_row = rows.pixel_at(y);
    if (shown_row < 0) {
      std::memset(target_row, fill, static_cast<std::size_t>(target.row_bytes()));
      continue;
    }
    const std::uint8_t* const row = source.row(shown_row - place.top);
    constexpr std::int64_t rows_ahead = 2;
    if (const std::int64_t ahead = y + rows_ahead < rows.count ? rows.pixel_at(y + rows_ahead) : -1; ahead >= 0)
      prefetch(source.row(ahead - place.top) + inside_left * channels, num_inside * channels);
    const auto border = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t x = begin; x < end; ++x) {
        const std::int64_t column = columns.pixel_at(x);
        std::uint8_t* const pixel = target_row + (mirroring.across ? columns.count - 1 - x : x) * channels;
        for (std::int64_t c = 0; c < channels; ++c)
          pixel[c] = column < 0 ? fill : row[(column - place.left) * channels + c];
      }
    };
    border(0, inside_begin);
    const std::uint8_t* const inside = row + inside_left * channels;
    if (mirroring.across) {
      copy_reversed(inside, num_inside, channels, target_row + (columns.count - inside_end) * channels);
    } else if (num_inside > 0) {
      std::memcpy(target_row + inside_begin * channels, inside, static_cast<std::size_t>(num_inside * channels));
    }
    border(inside_end, columns.count);
  }
}

}  // namespace trainer
