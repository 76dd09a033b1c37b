#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "engine/config/layer_spec.h"

namespace trainer {

/// Pixels of one byte a channel, (height, width, channels), rows without gaps. Keeps its memory when it is reshaped, so
/// that one which has held the largest image allocates nothing any more. Its memory is its own, or somebody else's.
class Image {
 public:
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  std::int64_t channels() const { return channels_; }
  Pair size() const { return {height_, width_}; }
  std::int64_t row_bytes() const { return width_ * channels_; }
  std::int64_t num_bytes() const { return height_ * row_bytes(); }

  std::uint8_t* row(std::int64_t y) { return pixels_ + y * row_bytes(); }
  const std::uint8_t* row(std::int64_t y) const { return pixels_ + y * row_bytes(); }
  std::span<std::uint8_t> pixels() { return {pixels_, static_cast<std::size_t>(num_bytes())}; }
  std::span<const std::uint8_t> pixels() const { return {pixels_, static_cast<std::size_t>(num_bytes())}; }

  /// The pixels are undefined then. The caller has checked that the product is one that a machine holds.
  void reshape(std::int64_t height, std::int64_t width, std::int64_t channels) {
    height_ = height;
    width_ = width;
    channels_ = channels;
    reserve(num_bytes());
  }
  /// The pixels are undefined then, where it had less.
  void reserve(std::int64_t num_bytes) {
    const auto needed = static_cast<std::size_t>(num_bytes);
    if (needed <= capacity_) return;
    owned_ = std::make_unique_for_overwrite<std::uint8_t[]>(needed);
    pixels_ = owned_.get();
    capacity_ = needed;
  }
  /// From now on its pixels are those bytes, as many as it then has, which are there as long as it is used.
  void borrow(std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels) {
    owned_.reset();
    pixels_ = pixels;
    height_ = height;
    width_ = width;
    channels_ = channels;
    capacity_ = static_cast<std::size_t>(num_bytes());
  }
  /// Bytes that it has allocated, or borrowed.
  std::size_t capacity() const { return capacity_; }

 private:
  std::int64_t height_ = 0, width_ = 0, channels_ = 0;
  std::size_t capacity_ = 0;
  std::uint8_t* pixels_ = nullptr;
  std::unique_ptr<std::uint8_t[]> owned_;  ///< null: pixels_ are borrowed
};

/// A rectangle of pixels; `top` and `left` count from 0.
struct Region {
  std::int64_t top = 0, left = 0, height = 0, width = 0;

  friend bool operator==(const Region&, const Region&) = default;
};

/// Fills `image` with a region of pixels whose rows have `width`.
inline void copy_region(const std::uint8_t* pixels, std::int64_t width, std::int64_t channels, const Region& region,
                        Image& image) {
  image.reshape(region.height, region.width, channels);
  const std::uint8_t* from = pixels + (region.top * width + region.left) * channels;
  for (std::int64_t y = 0; y < region.height; ++y, from += width * channels)
    std::memcpy(image.row(y), from, static_cast<std::size_t>(image.row_bytes()));
}

}  // namespace trainer
