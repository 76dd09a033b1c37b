#include "datasets/transforms/resampled_axis.h"

#include <algorithm>
#include <cmath>

#include "engine/errors.h"

namespace trainer {

namespace {

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

double keys_cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// A filter that lies over one axis; pixels count from the geometry's origin.
class PlacedFilter {
 public:
  explicit PlacedFilter(const AxisGeometry& geometry)
      : geometry_(geometry),
        scale_(geometry.length / static_cast<double>(geometry.target)),
        inverse_width_(scale_ >= 1 ? 1 / scale_ : 1),
        radius_((geometry.interpolation == Resampling::bicubic ? 2.0 : 1.0) * std::max(scale_, 1.0)) {}

  PixelRange range(std::int64_t i) const {
    const double centre = centre_of(i);
    constexpr double half_pixel = 0.5;
    const auto begin = static_cast<std::int64_t>(centre - radius_ + half_pixel);
    const auto end = static_cast<std::int64_t>(centre + radius_ + half_pixel);
    // Never empty: where rounding, or an image that was decoded coarsely, leaves nothing, it is the nearest pixel.
    const std::int64_t first = std::clamp(begin, geometry_.first, geometry_.end - 1);
    return {first, std::clamp(end, first + 1, geometry_.end)};
  }
  /// The most pixels that a range holds.
  std::int64_t most_pixels() const {
    return std::min(static_cast<std::int64_t>(2 * radius_) + 2, geometry_.end - geometry_.first);
  }
  /// Fills in the weights of `range`, whose sum is 1, and returns the largest.
  double weigh(std::int64_t i, const PixelRange& range, double* weights) const {
    const double centre = centre_of(i);
    double sum = 0;
    for (std::int64_t pixel = range.begin; pixel < range.end; ++pixel) {
      const double x = (static_cast<double>(pixel) - centre + 0.5) * inverse_width_;
      const double weight = geometry_.interpolation == Resampling::bicubic ? keys_cubic(x) : triangle(x);
      weights[pixel - range.begin] = weight;
      sum += weight;
    }
    if (sum == 0) {
      weights[0] = 1;
      std::fill(weights + 1, weights + range.size(), 0.0);
      return 1;
    }
    double largest = 0;
    for (std::int64_t tap = 0; tap < range.size(); ++tap) {
      weights[tap] /= sum;
      largest = std::max(largest, weights[tap]);
    }
    return largest;
  }

 private:
  double centre_of(std::int64_t i) const { return geometry_.fraction + scale_ * (static_cast<double>(i) + 0.5); }

  const AxisGeometry& geometry_;
  double scale_, inverse_width_, radius_;
};

std::int64_t nearest_pixel(const AxisGeometry& geometry, std::int64_t i) {
  const auto source = static_cast<std::int64_t>(geometry.length);
  if (source == geometry.target) return i;
  if (2 * source == geometry.target) return i / 2;
  const float scale = static_cast<float>(source) / static_cast<float>(geometry.target);
  return std::min(static_cast<std::int64_t>(std::floor(static_cast<float>(i) * scale)), source - 1);
}

/// The most bits of a weight that 16 hold.
int precision_of(double largest_weight) {
  constexpr int most = 22;
  int precision = 0;
  while (precision < most && 0.5 + largest_weight * static_cast<double>(1 << (precision + 1)) < 0x1p15) ++precision;
  return precision;
}

}  // namespace

PixelRange pixels_read(const AxisGeometry& geometry) {
  const std::int64_t first = geometry.kept_begin, last = geometry.kept_end - 1;
  if (geometry.interpolation == Resampling::nearest) {
    return {geometry.origin + nearest_pixel(geometry, first), geometry.origin + nearest_pixel(geometry, last) + 1};
  }
  const PlacedFilter filter(geometry);
  return {geometry.origin + filter.range(first).begin, geometry.origin + filter.range(last).end};
}

std::int64_t most_taps(const AxisScale& scale, Resampling interpolation) {
  if (interpolation == Resampling::nearest) return 0;
  // PlacedFilter::most_pixels(), whose quotient is rounded far too finely to reach another whole number.
  const std::int64_t twice_radius = interpolation == Resampling::bicubic ? 4 : 2;
  return std::min(twice_radius * std::max(scale.source, scale.target) / scale.target + 2, scale.available);
}

std::int64_t most_pixels_read(const AxisScale& scale, std::int64_t kept, Resampling interpolation) {
  const std::int64_t twice_radius = interpolation == Resampling::bicubic ? 4 : 2;
  // From the first filter's begin to the last one's end, each rounded; the nearest pixel is found in single precision.
  constexpr int bits_of_float = 22;
  const std::int64_t rounding = 1 + (interpolation == Resampling::nearest ? scale.available >> bits_of_float : 0);
  const std::int64_t reach =
      (scale.source * (kept - 1) + twice_radius * std::max(scale.source, scale.target)) / scale.target;
  return std::min(reach + rounding, scale.available);
}

void AxisMemory::hold(std::int64_t num_kept, std::int64_t num_taps) {
  firsts = std::max(firsts, num_kept);
  weights = std::max(weights, num_kept * num_taps);
  if (num_taps > 0) exact = std::max(exact, (num_kept + 1) * num_taps);
}

std::int64_t AxisMemory::num_bytes() const {
  return firsts * static_cast<std::int64_t>(sizeof(std::int32_t)) +
         weights * static_cast<std::int64_t>(sizeof(std::int16_t)) + exact * static_cast<std::int64_t>(sizeof(double));
}

void ResampledAxis::reserve(const AxisMemory& memory) {
  firsts_.reserve(static_cast<std::size_t>(memory.firsts));
  weights_.reserve(static_cast<std::size_t>(memory.weights));
  exact_.reserve(static_cast<std::size_t>(memory.exact));
}

void ResampledAxis::prepare(const AxisGeometry& geometry, std::int64_t available) {
  if (geometry == geometry_ && available == available_) return;
  const PixelRange read = pixels_read(geometry);
  require_internal(read.begin >= 0 && read.end <= available, "a resize reads only pixels that are there");
  geometry_ = geometry;
  available_ = available;
  firsts_.resize(static_cast<std::size_t>(geometry.num_kept()));
  if (geometry.interpolation == Resampling::nearest) {
    prepare_nearest();
  } else {
    prepare_filter();
  }
  if (geometry.is_reversed) std::reverse(firsts_.begin(), firsts_.end());
}

void ResampledAxis::prepare_nearest() {
  num_taps_ = 1;
  for (std::int64_t i = 0; i < num_kept(); ++i) {
    firsts_[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(geometry_.origin + nearest_pixel(geometry_, geometry_.kept_begin + i));
  }
}

void ResampledAxis::prepare_filter() {
  const PlacedFilter filter(geometry_);
  const std::int64_t stride = filter.most_pixels();
  exact_.resize(static_cast<std::size_t>((num_kept() + 1) * stride));
  double* const unkept = exact_.data() + num_kept() * stride;
  double largest = 0;
  num_taps_ = 1;
  for (std::int64_t i = 0; i < geometry_.target; ++i) {
    const bool is_kept = i >= geometry_.kept_begin && i < geometry_.kept_end;
    const PixelRange range = filter.range(i);
    double* const exact = is_kept ? exact_.data() + (i - geometry_.kept_begin) * stride : unkept;
    largest = std::max(largest, filter.weigh(i, range, exact));
    if (!is_kept) continue;
    std::fill(exact + range.size(), exact + stride, 0.0);
    firsts_[static_cast<std::size_t>(i - geometry_.kept_begin)] =
        static_cast<std::int32_t>(geometry_.origin + range.begin);
    num_taps_ = std::max(num_taps_, range.size());
  }
  num_taps_ = std::min(num_taps_, available_);
  precision_ = precision_of(largest);

  const auto unit = static_cast<double>(1 << precision_);
  weights_.assign(static_cast<std::size_t>(num_kept() * num_taps_), 0);
  for (std::int64_t i = 0; i < num_kept(); ++i) {
    auto& first = firsts_[static_cast<std::size_t>(i)];
    // All have as many weights: where these would reach beyond the image, zeros stand in front and not behind.
    const std::int64_t ahead = std::max<std::int64_t>(0, first + num_taps_ - available_);
    first -= static_cast<std::int32_t>(ahead);
    const double* const exact = exact_.data() + i * stride;
    const std::int64_t written = geometry_.is_reversed ? num_kept() - 1 - i : i;
    std::int16_t* const weights = weights_.data() + written * num_taps_;
    for (std::int64_t tap = ahead; tap < num_taps_; ++tap) {
      const double weight = exact[tap - ahead] * unit;
      weights[tap] = static_cast<std::int16_t>(static_cast<int>(weight < 0 ? weight - 0.5 : weight + 0.5));
    }
  }
}

std::size_t ResampledAxis::num_bytes() const {
  return firsts_.capacity() * sizeof(std::int32_t) + weights_.capacity() * sizeof(std::int16_t) +
         exact_.capacity() * sizeof(double);
}

}  // namespace trainer
