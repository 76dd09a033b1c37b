#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/image/image.h"
#include "datasets/image/size_bounds.h"
#include "engine/shape.h"

namespace trainer {

/// An image, or a mask, as it is stored: the bytes of a file, or pixels.
struct StoredImage {
  std::span<const std::byte> bytes;  ///< until the next image is opened with the same memory
  bool is_encoded = true;
  Pair size{0, 0};            ///< of pixels
  std::int64_t channels = 0;  ///< of pixels
};

/// What is known of a source's images from their headers.
struct ImageFacts {
  std::optional<Pair> size;            ///< that all have
  Pair smallest{0, 0}, largest{0, 0};  ///< by height, then width
  SizeBounds sizes;
  std::int64_t sum_pixels = 0;          ///< of all; 0 where nobody counted
  std::int64_t most_stored_bytes = 0;   ///< of a file, or of pixels with their target
  std::int64_t most_working_bytes = 0;  ///< as in ImageHeader, but of WebPs
  std::int64_t most_turned_pixels = 0;  ///< of an image that is stored in another way than upright
  std::int64_t most_whole_pixels = 0;   ///< of a WebP, which is decoded whole whatever is asked for
};

/// Numbered images of any size with their targets, before transforms. Immutable once made, so that any number of
/// threads may read it.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;

  virtual std::int64_t size() const = 0;
  virtual const ImageFacts& facts() const = 0;
  /// What messages call a sample: its file.
  virtual std::string name_of(std::int64_t index) const = 0;
  /// Reads files into `memory`, which is kept from call to call. DataError where a file cannot be read.
  virtual StoredImage open(std::int64_t index, std::vector<std::byte>& memory) const = 0;

  /// Of masks, where files hold them.
  virtual const ImageFacts* mask_facts() const { return nullptr; }
  /// Whether the target is a mask, which follows the image's geometry; else read_target() gives it.
  virtual bool has_masks() const { return false; }
  virtual StoredImage open_mask(std::int64_t index, std::vector<std::byte>& memory) const;
  /// Of a mask that is encoded.
  virtual std::string mask_name_of(std::int64_t /*index*/) const { return {}; }
  /// Turns the values of a mask that was decoded into those that mask_classes() is of. DataError where one stands for
  /// nothing.
  virtual void classify(std::int64_t /*index*/, Image& /*mask*/) const {}
  /// Of a mask: the class of each value, 256 of them.
  virtual std::span<const std::int32_t> mask_classes() const { return {}; }
  virtual void read_target(std::int64_t index, std::byte* target) const;

  /// What tells the files of a sample from what they were before: names, sizes, times of change. 0 where there are
  /// none.
  virtual std::uint64_t identity_of(std::int64_t /*index*/) const { return 0; }
  /// As Dataset::content_crc32.
  virtual std::optional<std::uint32_t> content_crc32() const { return std::nullopt; }

 protected:
  ImageSource() = default;
};

}  // namespace trainer
