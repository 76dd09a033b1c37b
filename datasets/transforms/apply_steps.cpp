#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "datasets/transforms/color.h"
#include "datasets/transforms/crop.h"
#include "datasets/transforms/erase.h"
#include "datasets/transforms/flip.h"
#include "datasets/transforms/grey.h"
#include "datasets/transforms/resize.h"
#include "datasets/transforms/rotate.h"
#include "datasets/transforms/transform_chain.h"
#include "engine/errors.h"

namespace trainer {

namespace {

using Steps = std::span<const TransformStep>;

/// A resize with the crops before and after it that lie inside their images, and flips behind: done as one.
struct FusedResize {
  Region source;  ///< of the image before
  Pair size{0, 0};
  Region kept;  ///< of the resized image
  /// Whether `kept` is what the next step, a crop with a border, shows of the resized image; else it is what comes out.
  bool is_for_border = false;
  bool is_flipped_down = false, is_flipped_across = false;
  Resampling interpolation = Resampling::bilinear;
  std::size_t num_steps = 0;
};

/// The region that crops at the front of `steps` leave of an image of `size`, and how many they are.
Region cropped_region(Steps steps, Pair size, std::size_t& num_steps) {
  Region region{0, 0, size[0], size[1]};
  for (num_steps = 0; num_steps < steps.size(); ++num_steps) {
    const auto* const crop = std::get_if<CropStep>(&steps[num_steps]);
    if (crop == nullptr || !lies_inside(crop->region, {region.height, region.width})) break;
    region = {region.top + crop->region.top, region.left + crop->region.left, crop->region.height, crop->region.width};
  }
  return region;
}

/// Of `steps` that begin with a resize, perhaps behind crops, of an image of `size`; else no steps.
FusedResize fused_resize(Steps steps, Pair size) {
  FusedResize fused;
  std::size_t position = 0;
  fused.source = cropped_region(steps, size, position);
  const auto* const resize = position < steps.size() ? std::get_if<ResizeStep>(&steps[position]) : nullptr;
  if (resize == nullptr) return fused;
  fused.size = resize->size;
  fused.interpolation = resize->interpolation;
  ++position;

  std::size_t num_crops = 0;
  fused.kept = cropped_region(steps.subspan(position), fused.size, num_crops);
  position += num_crops;
  const auto* const bordered = position < steps.size() ? std::get_if<CropStep>(&steps[position]) : nullptr;
  if (bordered != nullptr && num_crops == 0) {
    fused.is_for_border = true;
    fused.kept = pixels_shown(*bordered, fused.size);
  } else {
    for (; position < steps.size(); ++position) {
      const auto* const flip = std::get_if<FlipStep>(&steps[position]);
      if (flip == nullptr) break;
      bool& is_flipped = flip->direction == FlipDirection::horizontal ? fused.is_flipped_across : fused.is_flipped_down;
      is_flipped = !is_flipped;
    }
  }
  fused.num_steps = position;
  return fused;
}

std::int64_t divided_down(std::int64_t value, std::int64_t divisor) {
  const std::int64_t quotient = value / divisor;
  return quotient * divisor > value ? quotient - 1 : quotient;
}

/// Pixels `begin` … `begin` + `length` − 1 of an image of which `available` pixels are stored, each of them `reduction`
/// of the image's, from `place` on.
AxisGeometry source_axis(std::int64_t begin, std::int64_t length, std::int64_t place, std::int64_t reduction,
                         std::int64_t available) {
  AxisGeometry axis;
  axis.origin = divided_down(begin - place, reduction);
  const std::int64_t rest = begin - place - axis.origin * reduction;
  axis.fraction = static_cast<double>(rest) / static_cast<double>(reduction);
  axis.length = static_cast<double>(length) / static_cast<double>(reduction);
  axis.end = divided_down(rest + length + reduction - 1, reduction);
  if (reduction > 1) {
    // The border pixels of what was decoded stand for what is left of theirs.
    axis.first = std::clamp<std::int64_t>(-axis.origin, 0, axis.end - 1);
    axis.end = std::clamp(available - axis.origin, axis.first + 1, axis.end);
  }
  return axis;
}

struct Axes {
  AxisGeometry rows, columns;
};

Axes axes_of(const FusedResize& fused, const DecodedPlace& place, Pair stored) {
  Axes axes{source_axis(fused.source.top, fused.source.height, place.top, place.reduction, stored[0]),
            source_axis(fused.source.left, fused.source.width, place.left, place.reduction, stored[1])};
  axes.rows.target = fused.size[0];
  axes.columns.target = fused.size[1];
  axes.rows.kept_begin = fused.kept.top;
  axes.rows.kept_end = fused.kept.top + fused.kept.height;
  axes.columns.kept_begin = fused.kept.left;
  axes.columns.kept_end = fused.kept.left + fused.kept.width;
  axes.rows.is_reversed = fused.is_flipped_down;
  axes.columns.is_reversed = fused.is_flipped_across;
  axes.rows.interpolation = axes.columns.interpolation = fused.interpolation;
  return axes;
}

/// Does steps on an image, or on its mask.
class StepApplication {
 public:
  /// `spare` is where steps write that cannot work in place; it then is the image's memory.
  StepApplication(Image& image, Image& spare, Pair size, const DecodedPlace& place, ResizeScratch& scratch)
      : image_(image), spare_(spare), size_(size), place_(place), scratch_(scratch) {}

  void as_mask(std::uint8_t outside) {
    is_mask_ = true;
    outside_ = outside;
  }

  void run(Steps steps) {
    while (!steps.empty()) steps = steps.subspan(do_first(steps));
    whole();
  }

 private:
  /// How many were done.
  std::size_t do_first(Steps steps) {
    const FusedResize fused = fused_resize(steps, size_);
    if (fused.num_steps > 0) {
      resize_image(fused);
      return fused.num_steps;
    }
    std::size_t num_crops = 0;
    const Region region = cropped_region(steps, size_, num_crops);
    if (num_crops > 0) {
      act(CropStep{region});
      return num_crops;
    }
    std::visit([this](const auto& step) { act(step); }, steps.front());
    return 1;
  }

  void resize_image(FusedResize fused) {
    if (is_mask_) fused.interpolation = Resampling::nearest;
    require_internal(place_.reduction == 1 || fused.interpolation != Resampling::nearest,
                     "the nearest pixel is looked for among all");
    ResampledAxis& rows = is_mask_ ? scratch_.mask_rows : scratch_.rows;
    ResampledAxis& columns = is_mask_ ? scratch_.mask_columns : scratch_.columns;
    const Axes axes = axes_of(fused, place_, image_.size());
    rows.prepare(axes.rows, image_.height());
    columns.prepare(axes.columns, image_.width());
    resize(image_, rows, columns, scratch_, spare_);
    std::swap(image_, spare_);
    size_ = fused.is_for_border ? fused.size : image_.size();
    place_ = fused.is_for_border ? DecodedPlace{fused.kept.top, fused.kept.left, 1} : DecodedPlace{};
  }

  void act(const ResizeStep& step) {
    const TransformStep alone = step;
    resize_image(fused_resize({&alone, 1}, size_));
  }
  void act(const CropStep& step) {
    require_internal(place_.reduction == 1, "a crop without a resize is of all pixels");
    const Region stored{place_.top, place_.left, image_.height(), image_.width()};
    crop(step, size_, image_, stored, fill_of(step.fill), spare_);
    std::swap(image_, spare_);
    size_ = image_.size();
    place_ = {};
  }
  void act(const FlipStep& step) { flip(step.direction, whole()); }
  void act(const RotateStep& step) {
    rotate(step.degrees, is_mask_ ? Resampling::nearest : step.interpolation, fill_of(step.fill), whole(), spare_);
    std::swap(image_, spare_);
  }
  void act(const ColorStep& step) {
    if (!is_mask_) adjust_color(step, whole());
  }
  void act(const EraseStep& step) { erase(step.region, fill_of(step.fill), whole()); }
  void act(const GreyStep& step) {
    if (is_mask_) return;
    to_grey(whole(), step.channels, spare_);
    std::swap(image_, spare_);
  }

  std::uint8_t fill_of(std::int64_t fill) const { return is_mask_ ? outside_ : static_cast<std::uint8_t>(fill); }

  /// The image, all of which is there: for steps that are no crops and no resizes.
  Image& whole() {
    require_internal(place_.reduction == 1 && place_.top == 0 && place_.left == 0 && image_.size() == size_,
                     "what a step reads of an image is there");
    return image_;
  }

  Image& image_;
  Image& spare_;
  Pair size_;
  DecodedPlace place_;
  ResizeScratch& scratch_;
  bool is_mask_ = false;
  std::uint8_t outside_ = 0;
};

/// Of `whole` pixels that become `target` the share that `part` of them become, rounded up.
std::int64_t shrunk(std::int64_t part, std::int64_t whole, std::int64_t target) {
  const double share = static_cast<double>(part) / static_cast<double>(whole);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(share * static_cast<double>(target))));
}

}  // namespace

DecodeRequest needed_of(const std::vector<TransformStep>& steps, Pair size, std::int64_t channels) {
  DecodeRequest request;
  request.channels = channels;
  const FusedResize fused = fused_resize(steps, size);
  if (fused.num_steps > 0) {
    const Axes axes = axes_of(fused, {}, size);
    const PixelRange rows = pixels_read(axes.rows), columns = pixels_read(axes.columns);
    request.region = {rows.begin, columns.begin, rows.size(), columns.size()};
    if (fused.interpolation == Resampling::nearest) return request;
    request.wanted_size = {shrunk(rows.size(), fused.source.height, fused.size[0]),
                           shrunk(columns.size(), fused.source.width, fused.size[1])};
    return request;
  }
  std::size_t num_crops = 0;
  const Region region = cropped_region(steps, size, num_crops);
  if (num_crops > 0) {
    request.region = region;
  } else if (!steps.empty()) {
    if (const auto* const crop_step = std::get_if<CropStep>(steps.data())) {
      request.region = pixels_shown(*crop_step, size);
    }
  }
  return request;
}

void apply(const std::vector<TransformStep>& steps, Pair size, const DecodedPlace& place, Image& image, Image* mask,
           std::uint8_t outside, TransformScratch& scratch) {
  StepApplication(image, scratch.image, size, place, scratch.resize).run(steps);
  if (mask == nullptr) return;
  StepApplication on_mask(*mask, scratch.mask, size, {}, scratch.resize);
  on_mask.as_mask(outside);
  on_mask.run(steps);
}

}  // namespace trainer
