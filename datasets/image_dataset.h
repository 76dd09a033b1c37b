#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/image/image_source.h"
#include "datasets/image_cache.h"
#include "datasets/reader_memory.h"
#include "datasets/transforms/transform_chain.h"
#include "engine/config/experiment.h"

namespace trainer {

/// Images that are kept on their way through the transforms: Note [Cache of images] in image_cache.h.
struct KeptImages {
  std::shared_ptr<ImageCache> cache;
  TransformChain before{{}}, behind{{}};  ///< parts of the transforms
  std::int64_t channels = 0;              ///< between them
  bool has_whole_source = false;          ///< an entry for each sample of the source; else for each that is chosen
};

/// What becomes of a source's images: which are taken, and how they are prepared.
struct ImagePreparation {
  std::shared_ptr<const ImageSource> source;
  std::vector<std::uint32_t> chosen;  ///< numbers of the source's samples, in order
  TransformChain transforms{{}};
  std::optional<KeptImages> kept;
  ReaderMemory memory;  ///< of each thread's reader
  std::uint64_t seed = 0;
  TensorType sample;          ///< u8 (H, W, C), that transforms end in
  TensorType target;          ///< of a mask with its size
  std::int64_t channels = 3;  ///< that files are decoded to
  std::int64_t max_pixels = 0;
  bool reduced_decoding = false;  ///< data.reduced_decoding
  OnBadSample on_bad_sample = OnBadSample::error;
  std::int32_t ignored_target = -100;  ///< of a mask where it shows nothing of the image
};

/// Samples that were skipped because they cannot be read, each told once.
class SkippedSamples {
 public:
  /// Any thread's.
  void add(std::int64_t sample, const std::string& why);
  /// Why, in the order of the samples.
  std::vector<std::string> told() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::int64_t, std::string>> samples_;  // sorted
};

/// Images of a source, decoded and transformed as they are read: u8 pixels and their targets.
///
/// Note [Samples in the place of others]
/// With on_bad_sample: skip, the next sample that can be read takes the place of one that cannot, so that batches stay
/// whole and the order of all others is the same. It is drawn as what it is, so it looks the same in both places.
class ImageDataset final : public Dataset {
 public:
  explicit ImageDataset(ImagePreparation preparation);

  std::int64_t size() const override { return static_cast<std::int64_t>(preparation_.chosen.size()); }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override;
  std::unique_ptr<SampleReader> make_reader() const override;
  void read_classes(std::int64_t index, std::int32_t* classes) const override;
  std::int64_t number_of(std::int64_t index) const override {
    return preparation_.chosen[static_cast<std::size_t>(index)];
  }
  std::string name_of(std::int64_t index) const override { return preparation_.source->name_of(number_of(index)); }
  std::optional<std::uint32_t> content_crc32() const override { return preparation_.source->content_crc32(); }
  std::vector<std::string> skipped_samples() const override { return skipped_.told(); }
  std::string cache_failure() const override {
    return preparation_.kept ? preparation_.kept->cache->failure() : std::string();
  }

 private:
  class Reader;

  const ImagePreparation preparation_;
  mutable SkippedSamples skipped_;
};

}  // namespace trainer
