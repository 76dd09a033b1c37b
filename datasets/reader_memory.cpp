#include "datasets/reader_memory.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace trainer {
namespace {

/// Of pixels on either side of what is kept, the share that a filter reaches beyond it.
double with_border(std::int64_t kept) { return 1 + 4 / static_cast<double>(kept); }

/// Pixels that are decoded at most: of a resize and a crop, where they come first, those that are left of the image.
double decoded_pixels(const ImageFacts& facts, const std::vector<TransformSpec>& transforms) {
  const auto all = static_cast<double>(facts.most_pixels);
  if (transforms.size() < 2) return all;
  const auto* const resize = std::get_if<ResizeSpec>(&transforms[0].spec);
  if (resize == nullptr) return all;
  Pair crop{0, 0};
  if (const auto* const centre = std::get_if<CenterCropSpec>(&transforms[1].spec)) crop = centre->size;
  if (const auto* const random = std::get_if<RandomCropSpec>(&transforms[1].spec)) crop = random->size;
  if (crop[0] == 0) return all;
  const bool keeps_aspect = resize->size.size() == 1;
  const auto shorter = static_cast<double>(facts.longest_shorter);
  const auto height = static_cast<double>(resize->size.front()), width = static_cast<double>(resize->size.back());
  const double share = static_cast<double>(crop[0]) * with_border(crop[0]) / height * static_cast<double>(crop[1]) *
                       with_border(crop[1]) / width;
  return std::min(all, share * (keeps_aspect ? shorter * shorter : all));
}

/// Bounds of images on their way through transforms.
class ImageBounds {
 public:
  ImageBounds(const ImageFacts& facts, double pixels)
      : height_(static_cast<double>(facts.highest)),
        width_(static_cast<double>(facts.widest)),
        aspect_(facts.most_aspect),
        most_pixels_(pixels) {}

  /// `next`: the one behind it, or null.
  void follow(const TransformSpec& transform, const TransformSpec* next) {
    if (const auto* const resize = std::get_if<ResizeSpec>(&transform.spec)) {
      const bool has_both = resize->size.size() == 2;
      const auto shorter = static_cast<double>(resize->size.front());
      const double columns = has_both ? static_cast<double>(resize->size.back()) : shorter * aspect_;
      if (const auto* const crop = next == nullptr ? nullptr : std::get_if<CenterCropSpec>(&next->spec);
          crop != nullptr && !exceeds(crop->size, *resize)) {
        note_between(static_cast<double>(crop->size[1]));  // both at once
        return;
      }
      if (const auto* const crop = next == nullptr ? nullptr : std::get_if<RandomCropSpec>(&next->spec);
          crop != nullptr && crop->padding == Sides{0, 0, 0, 0} && !exceeds(crop->size, *resize)) {
        note_between(static_cast<double>(crop->size[1]));
        return;
      }
      note_between(columns);
      if (has_both) {
        become_exactly({resize->size[0], resize->size[1]});
      } else {
        height_ = width_ = shorter * aspect_;
        become(shorter * shorter * aspect_);
      }
    } else if (const auto* const centre = std::get_if<CenterCropSpec>(&transform.spec)) {
      become_exactly(centre->size);
    } else if (const auto* const random = std::get_if<RandomCropSpec>(&transform.spec)) {
      become_exactly(random->size);
    } else if (const auto* const part = std::get_if<RandomResizedCropSpec>(&transform.spec)) {
      note_between(static_cast<double>(part->size[1]));
      become_exactly(part->size);
    }
  }

  double most_pixels() const { return most_pixels_; }
  /// Columns that are resized, rows that are not.
  double between_pixels() const { return between_pixels_; }

 private:
  static bool exceeds(const Pair& crop, const ResizeSpec& resize) {
    return crop[0] > resize.size.front() || crop[1] > resize.size.back();
  }
  void become_exactly(const Pair& size) {
    height_ = static_cast<double>(size[0]);
    width_ = static_cast<double>(size[1]);
    aspect_ = std::max(height_ / width_, width_ / height_);
    become(height_ * width_);
  }
  void become(double pixels) { most_pixels_ = std::max(most_pixels_, pixels); }
  void note_between(double columns) { between_pixels_ = std::max(between_pixels_, columns * height_); }

  double height_, width_, aspect_;
  double most_pixels_, between_pixels_ = 0;
};

}  // namespace

std::int64_t reader_bytes(const ImageFacts& images, const ImageFacts* masks, bool has_masks, std::int64_t channels,
                          const std::vector<TransformSpec>& transforms) {
  ImageBounds bounds(images, decoded_pixels(images, transforms));
  for (std::size_t i = 0; i < transforms.size(); ++i)
    bounds.follow(transforms[i], i + 1 < transforms.size() ? &transforms[i + 1] : nullptr);
  const double copies = transforms.empty() ? 1 : 2;
  double num_bytes = static_cast<double>(images.most_stored_bytes + images.most_working_bytes);
  num_bytes += (copies * bounds.most_pixels() + bounds.between_pixels()) * static_cast<double>(channels);
  if (has_masks) {  // which are whole
    num_bytes += copies * std::max(bounds.most_pixels(), static_cast<double>(images.most_pixels));
    // A mask that is no file is made of its classes, and beside them.
    if (masks != nullptr)
      num_bytes += static_cast<double>(masks->most_stored_bytes + masks->most_working_bytes);
    else
      num_bytes += static_cast<double>(images.most_pixels) * (sizeof(std::int32_t) + 1);
  }
  constexpr double fixed = 64 << 10;  // weights of a resize, steps, names
  constexpr double most = 0x1p60;
  return static_cast<std::int64_t>(std::min(num_bytes + fixed, most));
}

}  // namespace trainer
