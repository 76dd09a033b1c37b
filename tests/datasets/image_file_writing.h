#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/datasets/data_files.h"
#include "tests/datasets/image/encoded_images.h"

// Image files in folders of tests.

namespace trainer {

inline std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// An image whose every channel is `level`, but for its first pixel, which is 0.
inline Image flat_image(std::int64_t height, std::int64_t width, std::uint8_t level) {
  Image image;
  image.reshape(height, width, 3);
  for (std::uint8_t& value : image.pixels()) value = level;
  for (int channel = 0; channel < 3; ++channel) image.row(0)[channel] = 0;
  return image;
}

inline std::string png_of(std::int64_t height, std::int64_t width, std::uint8_t level) {
  return text_of(make_png(flat_image(height, width, level)));
}

inline void write_below(const DataFolder& folder, const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(folder.path()) / std::filesystem::path(path).parent_path());
  folder.write(path, text);
}

}  // namespace trainer
