#include "datasets/transforms/transform_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "datasets/transforms/drawn_numbers.h"
#include "engine/config/diagnostic.h"
#include "engine/errors.h"

namespace trainer {

namespace {

/// Half to even, as Python's round().
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

Pair resized(const ResizeSpec& spec, Pair size) {
  if (spec.size.size() == 2) return {spec.size[0], spec.size[1]};
  const std::int64_t shorter = spec.size[0];
  if (size[0] < size[1]) return {shorter, shorter * size[1] / size[0]};
  return {shorter * size[0] / size[1], shorter};
}

/// Of an image that a resize with its aspect may make.
constexpr std::int64_t most_resized_pixels = std::int64_t{1} << 28;

void check_resized(Pair from, Pair to) {
  if (to[0] <= most_resized_pixels / to[1]) return;
  throw DataError(fmt::format("an image of {}×{} pixels would be resized to {}×{}", from[0], from[1], to[0], to[1]));
}

/// Draws what is done to one image, transform by transform.
class StepDrawing {
 public:
  StepDrawing(const SampleIdentity& identity, Pair size, std::int64_t channels, std::vector<TransformStep>& steps)
      : numbers_({identity.seed, transform_stream, static_cast<std::uint32_t>(identity.epoch)}, identity.sample),
        size_(size),
        channels_(channels),
        steps_(steps) {}

  void draw(const TransformSpec& transform) {
    location_ = &transform.location;
    std::visit([this](const auto& spec) { draw(spec); }, transform.spec);
  }

 private:
  void draw(const ResizeSpec& spec) {
    const Pair size = resized(spec, size_);
    if (spec.size.size() == 1) check_resized(size_, size);
    add_resize(size, spec.interpolation);
  }

  void draw(const CenterCropSpec& spec) {
    Region region{0, 0, spec.size[0], spec.size[1]};
    const auto offset = [](std::int64_t image, std::int64_t crop) {
      return crop > image ? -((crop - image) / 2) : rounded(static_cast<double>(image - crop) / 2);
    };
    region.top = offset(size_[0], spec.size[0]);
    region.left = offset(size_[1], spec.size[1]);
    add_crop({region});
  }

  void draw(const RandomCropSpec& spec) {
    Sides padding = spec.padding;
    Pair padded{size_[0] + padding[0] + padding[1], size_[1] + padding[2] + padding[3]};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::int64_t missing = spec.size[axis] - padded[axis];
      if (missing <= 0 || !spec.pad_if_needed) continue;
      padding[2 * axis] += missing;
      padded[axis] += 2 * missing;
    }
    if (padded[0] < spec.size[0] || padded[1] < spec.size[1]) {
      const bool is_padded = padded != size_;
      throw located_error(*location_,
                          fmt::format("a crop of {}×{} pixels is larger than an image of {}×{}{}", spec.size[0],
                                      spec.size[1], padded[0], padded[1], is_padded ? ", with its padding" : ""),
                          "a smaller 'size', 'pad_if_needed: true', or a 'resize' before it");
    }
    const std::int64_t top = padded[0] > spec.size[0] ? numbers_.below(padded[0] - spec.size[0] + 1) : 0;
    const std::int64_t left = padded[1] > spec.size[1] ? numbers_.below(padded[1] - spec.size[1] + 1) : 0;
    add_crop({{top - padding[0], left - padding[2], spec.size[0], spec.size[1]}, spec.mode, spec.fill});
  }

  void draw(const RandomResizedCropSpec& spec) {
    add_crop({part_of_image(spec)});
    add_resize(spec.size, spec.interpolation);
  }

  Region part_of_image(const RandomResizedCropSpec& spec) {
    const auto [height, width] = size_;
    const double area = static_cast<double>(height) * static_cast<double>(width);
    for (int attempt = 0; attempt < num_attempts; ++attempt) {
      const double part = area * numbers_.between(spec.scale[0], spec.scale[1]);
      const double ratio = numbers_.log_between(spec.ratio[0], spec.ratio[1]);
      const std::int64_t w = rounded(std::sqrt(part * ratio)), h = rounded(std::sqrt(part / ratio));
      if (w <= 0 || w > width || h <= 0 || h > height) continue;
      const std::int64_t top = numbers_.below(height - h + 1);
      return {top, numbers_.below(width - w + 1), h, w};
    }
    // The largest part in the middle whose ratio is among those asked for.
    const double ratio = static_cast<double>(width) / static_cast<double>(height);
    std::int64_t h = height, w = width;
    if (ratio < spec.ratio[0]) h = std::clamp<std::int64_t>(rounded(static_cast<double>(w) / spec.ratio[0]), 1, height);
    if (ratio > spec.ratio[1]) w = std::clamp<std::int64_t>(rounded(static_cast<double>(h) * spec.ratio[1]), 1, width);
    return {(height - h) / 2, (width - w) / 2, h, w};
  }

  void draw(const FlipSpec& spec) {
    if (numbers_.chance(spec.p)) steps_.emplace_back(FlipStep{spec.direction});
  }

  void draw(const RotateSpec& spec) {
    const double from = spec.degrees.size() == 1 ? -spec.degrees[0] : spec.degrees[0];
    const double degrees = numbers_.between(from, spec.degrees.back());
    if (std::fmod(degrees, 360) != 0) steps_.emplace_back(RotateStep{degrees, spec.interpolation, spec.fill});
  }

  void draw(const ColorJitterSpec& spec) {
    std::array<ColorProperty, 4> order{ColorProperty::brightness, ColorProperty::contrast, ColorProperty::saturation,
                                       ColorProperty::hue};
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(numbers_.below(static_cast<std::int64_t>(i)))]);
    }
    std::array<double, 4> factors{};
    factors[0] = factor_of(spec.brightness);
    factors[1] = factor_of(spec.contrast);
    factors[2] = factor_of(spec.saturation);
    if (!spec.hue.empty()) {
      factors[3] = numbers_.between(spec.hue.size() == 1 ? -spec.hue[0] : spec.hue[0], spec.hue.back());
    }
    for (const ColorProperty property : order) {
      const double factor = factors[static_cast<std::size_t>(property)];
      const bool is_hue = property == ColorProperty::hue;
      const bool needs_colours = is_hue || property == ColorProperty::saturation;
      if (factor == (is_hue ? 0 : 1) || (needs_colours && channels_ < 3)) continue;
      steps_.emplace_back(ColorStep{property, factor});
    }
  }

  double factor_of(const std::vector<double>& range) {
    if (range.empty()) return 1;
    if (range.size() == 2) return numbers_.between(range[0], range[1]);
    return numbers_.between(std::max(0.0, 1 - range[0]), 1 + range[0]);
  }

  void draw(const RandomErasingSpec& spec) {
    if (!numbers_.chance(spec.p)) return;
    const auto [height, width] = size_;
    const double area = static_cast<double>(height) * static_cast<double>(width);
    for (int attempt = 0; attempt < num_attempts; ++attempt) {
      const double part = area * numbers_.between(spec.scale[0], spec.scale[1]);
      const double ratio = numbers_.log_between(spec.ratio[0], spec.ratio[1]);
      // Here the ratio is of height over width, as torchvision's is.
      const std::int64_t h = rounded(std::sqrt(part * ratio)), w = rounded(std::sqrt(part / ratio));
      if (h >= height || w >= width) continue;
      const std::int64_t top = numbers_.below(height - h + 1), left = numbers_.below(width - w + 1);
      if (h > 0 && w > 0) steps_.emplace_back(EraseStep{{top, left, h, w}, spec.fill});
      return;
    }
  }

  void draw(const ToGreySpec& spec) {
    if (spec.p < 1 && !numbers_.chance(spec.p)) return;
    const std::int64_t channels = spec.p < 1 ? channels_ : spec.channels;
    if (channels_ == 1 && channels == 1) return;
    steps_.emplace_back(GreyStep{channels});
    channels_ = channels;
  }

  // What is done to batches is no part of a chain.
  void draw(const MixUpSpec& /*spec*/) { throw InternalError("internal error: mixup of a sample"); }
  void draw(const CutMixSpec& /*spec*/) { throw InternalError("internal error: cutmix of a sample"); }

  void add_resize(Pair size, Resampling interpolation) {
    if (size != size_) steps_.emplace_back(ResizeStep{size, interpolation});
    size_ = size;
  }

  void add_crop(const CropStep& step) {
    if (step.region != Region{0, 0, size_[0], size_[1]}) steps_.emplace_back(step);
    size_ = {step.region.height, step.region.width};
  }

  static constexpr int num_attempts = 10;

  DrawnNumbers numbers_;
  Pair size_;
  std::int64_t channels_;
  std::vector<TransformStep>& steps_;
  const SourceLocation* location_ = nullptr;
};

}  // namespace

std::size_t TransformChain::num_fixed(const std::vector<TransformSpec>& transforms) {
  const auto draws = [](const TransformSpec& transform) {
    const auto* const grey = std::get_if<ToGreySpec>(&transform.spec);
    return !std::holds_alternative<ResizeSpec>(transform.spec) &&
           !std::holds_alternative<CenterCropSpec>(transform.spec) && (grey == nullptr || grey->p < 1);
  };
  return static_cast<std::size_t>(std::find_if(transforms.begin(), transforms.end(), draws) - transforms.begin());
}

std::int64_t TransformChain::most_steps(const TransformSpec& transform) {
  if (std::holds_alternative<RandomResizedCropSpec>(transform.spec)) return 2;
  if (std::holds_alternative<ColorJitterSpec>(transform.spec)) return 4;
  return 1;
}

SizeBounds bounds_after(const SizeBounds& sizes, const TransformSpec& transform) {
  if (sizes.highest > 0 && sizes.are_one_size()) {
    const std::optional<Pair> size = TransformChain({transform}).size_after(Pair{sizes.highest, sizes.widest});
    return SizeBounds::of_one(*size);
  }
  if (const std::optional<Pair> size = TransformChain({transform}).size_after(std::nullopt))
    return SizeBounds::of_one(*size);
  const auto* const resize = std::get_if<ResizeSpec>(&transform.spec);
  if (resize == nullptr) return sizes;
  const std::int64_t shorter = resize->size.front();
  const std::int64_t longer =
      std::min(shorter * sizes.most_aspect[0] / sizes.most_aspect[1], most_resized_pixels / shorter);
  return {shorter, longer, shorter, longer, shorter * longer, shorter, {longer, shorter}};
}

bool TransformChain::may_uncover() const {
  return std::any_of(transforms_.begin(), transforms_.end(), [](const TransformSpec& transform) {
    const auto* const crop = std::get_if<RandomCropSpec>(&transform.spec);
    if (crop != nullptr) return crop->mode == PadMode::zeros && (crop->pad_if_needed || crop->padding != Sides{});
    return std::holds_alternative<CenterCropSpec>(transform.spec) ||
           std::holds_alternative<RotateSpec>(transform.spec) ||
           std::holds_alternative<RandomErasingSpec>(transform.spec);
  });
}

std::optional<Pair> TransformChain::size_after(std::optional<Pair> size) const {
  for (const TransformSpec& transform : transforms_) {
    if (const auto* const resize = std::get_if<ResizeSpec>(&transform.spec)) {
      if (resize->size.size() == 2) {
        size = Pair{resize->size[0], resize->size[1]};
      } else if (size) {
        size = resized(*resize, *size);
      }
    } else if (const auto* const centre = std::get_if<CenterCropSpec>(&transform.spec)) {
      size = centre->size;
    } else if (const auto* const crop = std::get_if<RandomCropSpec>(&transform.spec)) {
      size = crop->size;
    } else if (const auto* const part = std::get_if<RandomResizedCropSpec>(&transform.spec)) {
      size = part->size;
    }
  }
  return size;
}

std::int64_t TransformChain::channels_after(std::int64_t channels) const {
  for (const TransformSpec& transform : transforms_) {
    const auto* const grey = std::get_if<ToGreySpec>(&transform.spec);
    if (grey != nullptr && grey->p >= 1) channels = grey->channels;
  }
  return channels;
}

void TransformChain::draw(const SampleIdentity& identity, Pair size, std::int64_t channels,
                          std::vector<TransformStep>& steps) const {
  StepDrawing drawing(identity, size, channels, steps);
  for (const TransformSpec& transform : transforms_) drawing.draw(transform);
}

}  // namespace trainer
