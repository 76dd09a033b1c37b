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
  Mirroring mirroring;
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

/// Adds the flips that `steps` begin with, and says how many they are.
std::size_t mirrored_by(Steps steps, Mirroring& mirroring) {
  std::size_t num_steps = 0;
  for (; num_steps < steps.size(); ++num_steps) {
    const auto* const flip = std::get_if<FlipStep>(&steps[num_steps]);
    if (flip == nullptr) break;
    mirroring.add(flip->direction);
  }
  return num_steps;
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
    position += mirrored_by(steps.subspan(position), fused.mirroring);
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
  axes.rows.is_reversed = fused.mirroring.down;
  axes.columns.is_reversed = fused.mirroring.across;
  axes.rows.interpolation = axes.columns.interpolation = fused.interpolation;
  return axes;
}

// Note [Where steps write]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Steps that make an image of another one (resizes, crops, rotations, grey) write to one of two memories by turns, the
// last of them to where the sample is wanted: there is no copy behind it. Where none of them is left and the pixels do
// not lie there yet, they are copied, with the flips that come next; all other steps work on pixels where they are.

/// Does steps on an image, or on its mask.
class StepApplication {
 public:
  /// The pixels lie in `source`, which may be `image`. `destination` null: what comes out lies in `image` or `spare`.
  StepApplication(const Image& source, Image& image, Image& spare, Image* destination, Pair size,
                  const DecodedPlace& place, ResizeScratch& scratch)
      : source_(&source),
        written_(&source == &image ? &image : nullptr),
        image_(image),
        spare_(spare),
        destination_(destination),
        size_(size),
        place_(place),
        scratch_(scratch) {}

  void as_mask(std::uint8_t outside) {
    is_mask_ = true;
    outside_ = outside;
  }

  /// What comes out.
  Image& run(Steps steps) {
    while (!steps.empty() || must_move(steps)) steps = steps.subspan(do_first(steps));
    return whole();
  }

 private:
  bool makes_another(const TransformStep& step) const {
    return std::holds_alternative<ResizeStep>(step) || std::holds_alternative<CropStep>(step) ||
           std::holds_alternative<RotateStep>(step) || (std::holds_alternative<GreyStep>(step) && !is_mask_);
  }
  bool any_makes_another(Steps steps) const {
    return std::any_of(steps.begin(), steps.end(), [this](const auto& step) { return makes_another(step); });
  }
  /// Whether steps that do not begin with one that makes another image can be done only once the pixels were copied.
  bool must_move(Steps steps) const {
    if (written_ == nullptr) return true;
    return destination_ != nullptr && written_ != destination_ && !any_makes_another(steps);
  }

  /// How many were done.
  std::size_t do_first(Steps steps) {
    const FusedResize fused = fused_resize(steps, size_);
    if (fused.num_steps > 0) {
      resize_image(fused, steps.subspan(fused.num_steps));
      return fused.num_steps;
    }
    std::size_t num_steps = 0;
    CropStep cropping{cropped_region(steps, size_, num_steps)};
    if (num_steps == 0 && !steps.empty()) {
      if (const auto* const bordered = std::get_if<CropStep>(&steps.front())) {
        cropping = *bordered;
        num_steps = 1;
      } else if (makes_another(steps.front()) || !must_move(steps)) {
        std::visit([&](const auto& step) { act(step, steps.subspan(1)); }, steps.front());
        return 1;
      }
    }
    Mirroring mirroring;
    num_steps += mirrored_by(steps.subspan(num_steps), mirroring);
    crop_image(cropping, mirroring, steps.subspan(num_steps));
    return num_steps;
  }

  /// Where a step writes that these follow.
  Image& target_before(Steps rest) {
    if (destination_ != nullptr && !any_makes_another(rest)) return *destination_;
    return written_ == &image_ ? spare_ : image_;
  }
  void written_to(Image& target) { source_ = written_ = &target; }

  void resize_image(FusedResize fused, Steps rest) {
    if (is_mask_) fused.interpolation = Resampling::nearest;
    require_internal(place_.reduction == 1 || fused.interpolation != Resampling::nearest,
                     "the nearest pixel is looked for among all");
    ResampledAxis& rows = is_mask_ ? scratch_.mask_rows : scratch_.rows;
    ResampledAxis& columns = is_mask_ ? scratch_.mask_columns : scratch_.columns;
    const Axes axes = axes_of(fused, place_, source_->size());
    rows.prepare(axes.rows, source_->height());
    columns.prepare(axes.columns, source_->width());
    Image& target = target_before(rest);
    resize(*source_, rows, columns, scratch_, target);
    written_to(target);
    size_ = fused.is_for_border ? fused.size : target.size();
    place_ = fused.is_for_border ? DecodedPlace{fused.kept.top, fused.kept.left, 1} : DecodedPlace{};
  }

  void crop_image(const CropStep& step, const Mirroring& mirroring, Steps rest) {
    require_internal(place_.reduction == 1, "a crop without a resize is of all pixels");
    const Region stored{place_.top, place_.left, source_->height(), source_->width()};
    Image& target = target_before(rest);
    crop(step, mirroring, size_, *source_, stored, fill_of(step.fill), target);
    written_to(target);
    size_ = target.size();
    place_ = {};
  }

  void act(const ResizeStep& step, Steps rest) {
    const TransformStep alone = step;
    resize_image(fused_resize({&alone, 1}, size_), rest);
  }
  void act(const CropStep& step, Steps rest) { crop_image(step, {}, rest); }
  void act(const FlipStep& step, Steps /*rest*/) { flip(step.direction, whole()); }
  void act(const RotateStep& step, Steps rest) {
    Image& target = target_before(rest);
    rotate(step.degrees, is_mask_ ? Resampling::nearest : step.interpolation, fill_of(step.fill), whole_source(),
           target);
    written_to(target);
  }
  void act(const ColorStep& step, Steps /*rest*/) {
    if (!is_mask_) adjust_color(step, whole());
  }
  void act(const EraseStep& step, Steps /*rest*/) { erase(step.region, fill_of(step.fill), whole()); }
  void act(const GreyStep& step, Steps rest) {
    if (is_mask_) return;
    Image& target = target_before(rest);
    to_grey(whole_source(), step.channels, target);
    written_to(target);
  }

  std::uint8_t fill_of(std::int64_t fill) const { return is_mask_ ? outside_ : static_cast<std::uint8_t>(fill); }

  /// The image, all of which is there: for steps that are no crops and no resizes.
  const Image& whole_source() const {
    require_internal(place_.reduction == 1 && place_.top == 0 && place_.left == 0 && source_->size() == size_,
                     "what a step reads of an image is there");
    return *source_;
  }
  Image& whole() {
    whole_source();
    return *written_;
  }

  const Image* source_;  ///< where the pixels are
  Image* written_;       ///< the same where they may be written to, else null
  Image& image_;
  Image& spare_;
  Image* destination_;
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

Pair size_after(const std::vector<TransformStep>& steps, Pair size) {
  for (const TransformStep& step : steps) {
    if (const auto* const resize_step = std::get_if<ResizeStep>(&step)) size = resize_step->size;
    if (const auto* const crop_step = std::get_if<CropStep>(&step))
      size = {crop_step->region.height, crop_step->region.width};
  }
  return size;
}

void apply(const std::vector<TransformStep>& steps, Pair size, const DecodedPlace& place, Image& image,
           TransformScratch& scratch) {
  if (&StepApplication(image, image, scratch.image, nullptr, size, place, scratch.resize).run(steps) != &image)
    std::swap(image, scratch.image);
}

void apply_to_mask(const std::vector<TransformStep>& steps, Image& mask, std::uint8_t outside,
                   TransformScratch& scratch) {
  StepApplication on_mask(mask, mask, scratch.mask, nullptr, mask.size(), {}, scratch.resize);
  on_mask.as_mask(outside);
  if (&on_mask.run(steps) != &mask) std::swap(mask, scratch.mask);
}

void apply(const std::vector<TransformStep>& steps, Pair size, const DecodedPlace& place, const Image& source,
           Image& image, TransformScratch& scratch, Image& destination) {
  StepApplication(source, image, scratch.image, &destination, size, place, scratch.resize).run(steps);
}

}  // namespace trainer
