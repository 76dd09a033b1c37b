#include "datasets/cached_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>

#include "datasets/identity_hash.h"
#include "datasets/image/image_decoder.h"
#include "datasets/transforms/transform_chain.h"

namespace trainer {
namespace {

/// Pixels of the largest image behind such transforms.
std::int64_t most_pixels_behind(const ImageFacts& images, const std::vector<TransformSpec>& fixed) {
  SizeBounds sizes = images.sizes;
  for (const TransformSpec& transform : fixed) sizes = bounds_after(sizes, transform);
  return sizes.most_pixels;
}

std::string key_text(const TransformSpec& transform) {
  if (const auto* const resize = std::get_if<ResizeSpec>(&transform.spec)) {
    const bool has_both = resize->size.size() == 2;
    return fmt::format("resize {} {} {}", resize->size.front(), has_both ? resize->size.back() : 0,
                       static_cast<int>(resize->interpolation));
  }
  if (const auto* const crop = std::get_if<CenterCropSpec>(&transform.spec))
    return fmt::format("center_crop {} {}", crop->size[0], crop->size[1]);
  return fmt::format("to_grey {}", std::get<ToGreySpec>(transform.spec).channels);
}

std::uint64_t key_of(const DataConfig& config, const CachedPart& part, const ImageSource& source) {
  IdentityHash hash;
  hash.add(decoder_versions());
  hash.add_number(static_cast<std::uint64_t>(config.channels));
  for (const TransformSpec& transform : fixed_transforms(part.transforms)) hash.add(key_text(transform));
  for (std::int64_t i = 0; i < part.num_stored; ++i) hash.add_number(source.identity_of(i));
  return hash.value();
}

/// What the images that are taken will be together, of sizes as those of all.
std::int64_t expected_bytes(const CacheShape& shape, const CachedPart& part, const std::vector<TransformSpec>& fixed) {
  CacheShape taken = shape;
  taken.num_entries = part.num_taken;
  if (!fixed.empty() || part.images.sum_pixels == 0) return taken.num_bytes();
  const double of_pixels = static_cast<double>(shape.entry_bytes()) / static_cast<double>(shape.most_pixels);
  const double share = static_cast<double>(part.num_taken) / static_cast<double>(part.num_stored);
  return static_cast<std::int64_t>(static_cast<double>(part.images.sum_pixels) * of_pixels * share);
}

}  // namespace

std::vector<TransformSpec> fixed_transforms(const std::vector<TransformSpec>& transforms) {
  const auto end = transforms.begin() + static_cast<std::ptrdiff_t>(TransformChain::num_fixed(transforms));
  return {transforms.begin(), end};
}

CacheShape cache_shape(const DataConfig& config, const CachedPart& part) {
  const std::vector<TransformSpec> fixed = fixed_transforms(part.transforms);
  return {.num_entries = config.cache == ImageCaching::disk ? part.num_stored : part.num_taken,
          .most_pixels = most_pixels_behind(part.images, fixed),
          .channels = TransformChain(fixed).channels_after(config.channels),
          .has_masks = part.has_masks};
}

std::int64_t cache_bytes(const DataConfig& config, const CachedPart& part) {
  if (config.cache == ImageCaching::none) return 0;
  return ImageCache::held_bytes(cache_shape(config, part), config.cache == ImageCaching::disk);
}

std::optional<KeptImages> keep_images(const DataConfig& config, const CachedPart& part, const ImageSource& source) {
  if (config.cache == ImageCaching::none) return std::nullopt;
  const std::vector<TransformSpec> fixed = fixed_transforms(part.transforms);
  const auto behind = part.transforms.begin() + static_cast<std::ptrdiff_t>(fixed.size());
  const CacheShape shape = cache_shape(config, part);
  KeptImages kept;
  kept.before = TransformChain(fixed);
  kept.behind = TransformChain({behind, part.transforms.end()});
  kept.channels = shape.channels;
  kept.has_whole_source = config.cache == ImageCaching::disk;
  if (config.cache == ImageCaching::ram) {
    kept.cache = make_memory_cache(shape);
    return kept;
  }
  kept.cache = make_disk_cache(shape, image_cache_folder(config.cache_folder), key_of(config, part, source),
                               expected_bytes(shape, part, fixed));
  return kept;
}

}  // namespace trainer
