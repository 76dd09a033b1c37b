#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/image/image.h"
#include "datasets/image/image_decoder.h"
#include "datasets/image/size_bounds.h"
#include "datasets/transforms/resize.h"
#include "datasets/transforms/transform_step.h"
#include "engine/config/transform_spec.h"

namespace trainer {

// Note [Numbers of transforms]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// What is drawn for a sample is a function of (seed, epoch, number of the sample in its data set): Philox blocks of the
// stream `transform_stream` and the step `epoch`, from sample · 2^16 on, a word a number in the order of the chain. So
// a sample looks the same whatever thread prepares it, after a resumed run, and on any number of devices.

/// Whose numbers are drawn.
struct SampleIdentity {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
};

/// Memory of apply(), kept from sample to sample: nothing is allocated once it, and the images, hold the largest
/// (Note [Memory of readers] in datasets/reader_memory.h).
class TransformScratch {
 public:
  Image image, mask;
  ResizeScratch resize;

  /// Bytes that it has allocated.
  std::size_t num_bytes() const { return image.capacity() + mask.capacity() + resize.num_bytes(); }
};

/// A list of transforms. Immutable, so that any number of threads may use it.
class TransformChain {
 public:
  explicit TransformChain(std::vector<TransformSpec> transforms) : transforms_(std::move(transforms)) {}

  /// Of a list, how many draw nothing and come first: what they make of an image is the same in every epoch.
  static std::size_t num_fixed(const std::vector<TransformSpec>& transforms);
  /// The most steps that draw() appends for one of them.
  static std::int64_t most_steps(const TransformSpec& transform);

  /// Whether pixels of what comes out may show nothing of an image: what is padded, turned or erased.
  bool may_uncover() const;
  /// Size and channels of what comes out of images of that size, absent where they have several: absent where images
  /// that come out may then have several too.
  std::optional<Pair> size_after(std::optional<Pair> size) const;
  std::int64_t channels_after(std::int64_t channels) const;

  /// Appends what is done to an image of that size and so many channels, each number drawn: a step that would change
  /// nothing is left out. ConfigError, at the transform's place, for a crop that is larger than the image.
  void draw(const SampleIdentity& identity, Pair size, std::int64_t channels, std::vector<TransformStep>& steps) const;

 private:
  std::vector<TransformSpec> transforms_;
};

/// The sizes of images that come out of a transform of images of such sizes; 0 of unknown ones.
SizeBounds bounds_after(const SizeBounds& sizes, const TransformSpec& transform);

/// What `steps` read of an image, and what that becomes: for a decoder, which need not decode more. Steps that begin
/// with crops, with a resize and a crop, or with all of these, read a part.
DecodeRequest needed_of(const std::vector<TransformStep>& steps, Pair size, std::int64_t channels);

/// Of what comes out of steps.
Pair size_after(const std::vector<TransformStep>& steps, Pair size);

/// Does the steps, on an image whose pixels lie at `place` of the image of `size` that they were drawn for. What comes
/// out depends on the pixels that needed_of() asks for alone; where they were decoded at a reduction, it is an
/// approximation of what comes of all.
void apply(const std::vector<TransformStep>& steps, Pair size, const DecodedPlace& place, Image& image,
           TransformScratch& scratch);
/// The same of `source`, which may be `image`, into `destination`: Note [Where steps write]. `image` is what comes
/// between.
void apply(const std::vector<TransformStep>& steps, Pair size, const DecodedPlace& place, const Image& source,
           Image& image, TransformScratch& scratch, Image& destination);
/// Does to a mask, which is whole and has one channel, what follows from the geometry alone, by the nearest pixel that
/// torchvision takes for masks. What lies beyond its border becomes `outside` where it is not mirrored or repeated as
/// the image's is, and so does what is erased, which no longer shows what it was (torchvision leaves it).
void apply_to_mask(const std::vector<TransformStep>& steps, Image& mask, std::uint8_t outside,
                   TransformScratch& scratch);

}  // namespace trainer
