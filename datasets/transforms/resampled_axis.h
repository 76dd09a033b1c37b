#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datasets/image/image.h"
#include "engine/config/transform_spec.h"

namespace trainer {

// Note [Resampling]
// ~~~~~~~~~~~~~~~~~
// A pixel of a resized image is a weighted sum of those that lie under a filter about its centre: a triangle, or the
// cubic with a = −0.5 of R. Keys ("Cubic convolution interpolation for digital image processing", 1981), as wide as the
// distance between the new pixels where the image becomes smaller, which is what PIL and PyTorch's
// interpolate(antialias=True) compute on bytes. As theirs, weights are 16-bit whole numbers over a power of two, rows
// come first and are rounded to bytes before columns. What is kept of the result, and in which direction it is written,
// changes no weight: so a crop and flips that follow a resize cost nothing.
// The nearest pixel is PyTorch's interpolate(mode="nearest"): the one at floor(i · source / target), in single
// precision.

/// One axis of a resize, from `length` pixels of a stored image on, which begin at `origin` + `fraction`. Whole numbers
/// where nothing was left out when the image was decoded; then the same weights come of any `origin`.
struct AxisGeometry {
  std::int64_t origin = 0;
  double fraction = 0;
  double length = 0;
  std::int64_t first = 0, end = 0;  ///< pixels from `origin` on that the filter may reach
  std::int64_t target = 0;          ///< pixels after it
  std::int64_t kept_begin = 0, kept_end = 0;
  bool is_reversed = false;  ///< the last of the kept pixels comes first
  Resampling interpolation = Resampling::bilinear;

  std::int64_t num_kept() const { return kept_end - kept_begin; }
  /// Whether each kept pixel is one of the source, in order.
  bool is_copy() const { return fraction == 0 && length == static_cast<double>(target) && !is_reversed; }

  friend bool operator==(const AxisGeometry&, const AxisGeometry&) = default;
};

/// The first pixel, and the one behind the last, that the kept pixels have weights for.
struct PixelRange {
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
};
PixelRange pixels_read(const AxisGeometry& geometry);

/// A bound for resizes of one axis: at most `source` pixels become `target`, in this proportion, of at most
/// `available`.
struct AxisScale {
  std::int64_t source = 0, target = 1, available = 0;
};
/// The most weights that a pixel has; 0 where each is one of the source's.
std::int64_t most_taps(const AxisScale& scale, Resampling interpolation);
/// The most pixels of the source that `kept` neighbouring ones are made of.
std::int64_t most_pixels_read(const AxisScale& scale, std::int64_t kept, Resampling interpolation);

/// Elements of a ResampledAxis's lists.
struct AxisMemory {
  std::int64_t firsts = 0, weights = 0, exact = 0;

  /// Of so many kept pixels of at most so many weights, too.
  void hold(std::int64_t num_kept, std::int64_t num_taps);
  std::int64_t num_bytes() const;
};

/// Which pixels each kept pixel is made of. Keeps its memory.
class ResampledAxis {
 public:
  void reserve(const AxisMemory& memory);
  /// `available`: pixels of the stored image, among them those of pixels_read(). Does nothing where both are as before.
  void prepare(const AxisGeometry& geometry, std::int64_t available);

  const AxisGeometry& geometry() const { return geometry_; }
  /// Weights a pixel, zeros among them; 1 for the nearest.
  std::int64_t num_taps() const { return num_taps_; }
  /// The weights of a pixel add up to about 2^precision.
  int precision() const { return precision_; }
  std::int64_t num_kept() const { return geometry_.num_kept(); }
  /// Of the kept pixels as they are written; `first(i)` + num_taps() is never behind the last pixel available.
  std::int64_t first(std::int64_t i) const { return firsts_[static_cast<std::size_t>(i)]; }
  std::span<const std::int32_t> firsts() const { return firsts_; }
  const std::int16_t* weights(std::int64_t i) const { return weights_.data() + i * num_taps_; }
  std::size_t num_bytes() const;

 private:
  void prepare_nearest();
  void prepare_filter();

  AxisGeometry geometry_;
  std::int64_t available_ = -1;
  std::int64_t num_taps_ = 0;
  int precision_ = 0;
  std::vector<std::int32_t> firsts_;
  std::vector<std::int16_t> weights_;
  std::vector<double> exact_;  ///< the weights before they are rounded
};

}  // namespace trainer
