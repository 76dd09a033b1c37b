#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "datasets/transforms/transform_chain.h"

namespace trainer {

inline Image image_of(std::int64_t height, std::int64_t width, std::int64_t channels,
                      const std::vector<std::uint8_t>& pixels) {
  Image image;
  image.reshape(height, width, channels);
  std::copy(pixels.begin(), pixels.end(), image.pixels().begin());
  return image;
}

inline Image noise(std::int64_t height, std::int64_t width, std::int64_t channels, std::uint32_t seed) {
  std::mt19937 numbers(seed);
  Image image;
  image.reshape(height, width, channels);
  for (std::uint8_t& value : image.pixels()) value = static_cast<std::uint8_t>(numbers() >> 13U);
  return image;
}

inline Image copy_of(const Image& image, const Region& region) {
  Image copy;
  copy.reshape(region.height, region.width, image.channels());
  for (std::int64_t y = 0; y < region.height; ++y) {
    const std::uint8_t* const row = image.row(region.top + y) + region.left * image.channels();
    std::copy(row, row + copy.row_bytes(), copy.row(y));
  }
  return copy;
}
inline Image copy_of(const Image& image) { return copy_of(image, {0, 0, image.height(), image.width()}); }

inline std::vector<int> values_of(const Image& image) { return {image.pixels().begin(), image.pixels().end()}; }

inline bool are_same(const Image& a, const Image& b) {
  return a.size() == b.size() && a.channels() == b.channels() && std::ranges::equal(a.pixels(), b.pixels());
}

/// What the steps make of an image all of which is there.
inline Image transformed(const Image& image, const std::vector<TransformStep>& steps) {
  Image result = copy_of(image);
  TransformScratch scratch;
  apply(steps, image.size(), {}, result, scratch);
  return result;
}

inline Image transformed_mask(const Image& mask, const std::vector<TransformStep>& steps, std::uint8_t outside) {
  Image result = copy_of(mask);
  TransformScratch scratch;
  apply_to_mask(steps, result, outside, scratch);
  return result;
}

/// A chain of transforms that all have their defaults but for what is said.
inline TransformChain chain_of(std::initializer_list<TransformVariant> transforms) {
  std::vector<TransformSpec> specs;
  for (const TransformVariant& transform : transforms) specs.push_back({"", transform, {}});
  return TransformChain(specs);
}

}  // namespace trainer
