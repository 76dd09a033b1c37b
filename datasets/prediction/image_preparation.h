#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "datasets/image/image.h"
#include "datasets/image/image_decoder.h"
#include "datasets/transforms/transform_chain.h"
#include "engine/config/experiment.h"
#include "engine/shape.h"

namespace trainer {

/// What becomes of images that a model predicts from, as of those that evaluations judged it by.
struct PreparedImage {
  TransformChain transforms{{}};  ///< data.transforms.validation
  Shape sample;                   ///< u8 (H, W, C), that they end in
  std::int64_t channels = 3;      ///< that files are decoded to
  std::int64_t max_pixels = 0;
  bool reduced_decoding = false;
  std::uint64_t seed = 0;
};

/// Of the experiment's model, which takes images of `sample`. ConfigError where no image file has such channels.
PreparedImage prepared_image_of(const Experiment& experiment, const Shape& sample);

/// One thread's decoder and pixels. Unlike a training reader (Note [Memory of readers] in datasets/reader_memory.h) it
/// has not seen the headers of all files, so its memory grows to what the largest image so far took.
class ImagePreparer {
 public:
  explicit ImagePreparer(const PreparedImage& prepared) : prepared_(prepared), decoder_(prepared.max_pixels) {}

  /// Writes the sample of an image file. Throws DataError that begins with its name, ConfigError.
  void prepare_file(const std::string& path, std::int64_t number, std::byte* sample);
  /// The same of pixels; `name`: what messages call them.
  void prepare_pixels(std::span<const std::byte> pixels, Pair size, std::int64_t channels, const std::string& name,
                      std::int64_t number, std::byte* sample);

 private:
  /// What is done to an image of that size, in steps_.
  void draw(std::int64_t number, Pair size, std::int64_t channels, const std::string& name);
  void finish(Pair size, const DecodedPlace& place, std::byte* sample);

  const PreparedImage& prepared_;
  ImageDecoder decoder_;
  std::vector<std::byte> file_;
  std::vector<TransformStep> steps_;
  Image image_;
  TransformScratch scratch_;
};

}  // namespace trainer
