#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "datasets/image/image.h"
#include "datasets/image/image_decoder.h"

namespace trainer {

// Note [Cache of images]
// ~~~~~~~~~~~~~~~~~~~~~~
// data.cache keeps the pixels of images, and of their masks, behind those transforms that draw nothing and come first
// (resize, center_crop, to_grey): what is the same in every epoch. The others are done to what is kept, so samples have
// the bits that they have without a cache.
//
// Each image has a slot of the largest one's size, and pages that nothing was written to take no memory and no space on
// a disk. In memory a slot is written once, by the thread that comes first. On a disk the file's name is a hash of
// what decides its pixels: names, sizes and times of change of all files, and the transforms. A slot's line in the
// file's index is written behind its pixels and has their checksum, which is compared when a process reads the slot for
// the first time: what a kill, a full disk or a failing one left is decoded and written anew. Processes that
// share a file may write a slot at once, since they write the same bytes. The file is read, not mapped, so that one
// that is cut off meanwhile is no end of the process.
//
// What is in memory is lent, not copied: the first transform behind reads it where it lies, and a crop with a flip
// writes from there to the batch. Of a disk the rows that are needed are read to the thread's memory, which is small
// enough to stay near the core, and from there it is the same.

struct CacheShape {
  std::int64_t num_entries = 0;
  std::int64_t most_pixels = 0;  ///< of an image
  std::int64_t channels = 0;
  bool has_masks = false;  ///< of one byte a pixel, beside each image

  std::int64_t entry_bytes() const { return most_pixels * (channels + (has_masks ? 1 : 0)); }
  /// Of all slots; 2^60 where they are more.
  std::int64_t num_bytes() const;
};

/// Any thread's.
class ImageCache {
 public:
  virtual ~ImageCache() = default;
  ImageCache(const ImageCache&) = delete;
  ImageCache& operator=(const ImageCache&) = delete;

  /// The size of an image that is there.
  virtual std::optional<Pair> find(std::int64_t entry) = 0;
  /// Of an image that find() said is there, with that size: a region of it that contains `wanted` (height 0: all), in
  /// `lent`, which borrows what lies in memory, or in `image`, which is filled. Fills `mask`, where there are some,
  /// with all of it. Nothing where it is not there after all.
  struct Found {
    const Image* pixels = nullptr;  ///< `lent` or `image`
    DecodedPlace place;
  };
  virtual std::optional<Found> read(std::int64_t entry, Pair size, const Region& wanted, Image& lent, Image& image,
                                    Image* mask) = 0;
  /// DataError where it is larger than a slot. Where it cannot be written, nothing is written any more: failure().
  virtual void store(std::int64_t entry, const Image& image, const Image* mask) = 0;
  /// Why images are not kept any more; empty: they are.
  virtual std::string failure() const { return {}; }

  /// Of host memory, with what slots may take.
  static std::int64_t held_bytes(const CacheShape& shape, bool on_disk);

 protected:
  explicit ImageCache(const CacheShape& shape) : shape_(shape) {}
  void check_fits(const Image& image) const;

  const CacheShape shape_;
};

/// HostOutOfMemory where there is no memory.
std::unique_ptr<ImageCache> make_memory_cache(const CacheShape& shape);

/// In `folder`, which is made where it does not exist. `key`: of all that decides the pixels. `needed_bytes`: that the
/// disk must have where the file is new, about. DataError where it cannot be made or the disk is too full.
std::unique_ptr<ImageCache> make_disk_cache(const CacheShape& shape, const std::string& folder, std::uint64_t key,
                                            std::int64_t needed_bytes);

/// `data.cache_folder`, or where caches are kept: (XDG_CACHE_HOME or ~/.cache)/trainer/images. DataError where there is
/// no such place.
std::string image_cache_folder(const std::string& configured);

}  // namespace trainer
