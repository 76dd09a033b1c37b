#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "datasets/image/image_source.h"
#include "datasets/image_cache.h"
#include "datasets/image_dataset.h"
#include "engine/config/experiment.h"

namespace trainer {

/// The images of one part of a data set, and what is done to them: what a cache of them is made for.
struct CachedPart {
  const ImageFacts& images;
  bool has_masks = false;
  const std::vector<TransformSpec>& transforms;
  std::int64_t num_stored = 0;  ///< of the source, of which the part may take some
  std::int64_t num_taken = 0;
};

/// Those of a list that draw nothing and come first.
std::vector<TransformSpec> fixed_transforms(const std::vector<TransformSpec>& transforms);

/// Note [Cache of images]: of memory a cache has the entries that are taken, on a disk all, so that runs which split
/// the data otherwise share it.
CacheShape cache_shape(const DataConfig& config, const CachedPart& part);
/// Of host memory that data.cache takes for that part at most; 0 without one.
std::int64_t cache_bytes(const DataConfig& config, const CachedPart& part);
/// Nothing where data.cache is none. DataError, HostOutOfMemory as make_disk_cache() and make_memory_cache().
std::optional<KeptImages> keep_images(const DataConfig& config, const CachedPart& part, const ImageSource& source);

}  // namespace trainer
