#include "datasets/reader_memory.h"

#include <algorithm>
#include <optional>
#include <span>
#include <variant>

#include "datasets/image/image_decoder.h"
#include "datasets/image/retained_memory.h"
#include "datasets/transforms/transform_chain.h"
#include "datasets/transforms/weighted_sums.h"

namespace trainer {
namespace {

/// More than any machine holds; sums of these do not overflow.
constexpr std::int64_t most_reserved = std::int64_t{1} << 56;

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? most_reserved : std::min(product, most_reserved);
}

void raise(std::int64_t& most, std::int64_t value) { most = std::max(most, value); }

std::int64_t pixels_of(Pair size) { return times(size[0], size[1]); }
Pair smaller_of(Pair a, Pair b) { return {std::min(a[0], b[0]), std::min(a[1], b[1])}; }

struct Cropping {
  Pair size{0, 0};
  bool may_pad = false;  ///< may show a border
};

/// What a transform crops of images of such sizes; nothing where it is no crop.
std::optional<Cropping> cropping_of(const TransformSpec* transform, const SizeBounds& bounds) {
  if (transform == nullptr) return std::nullopt;
  const auto exceeds = [&](Pair size) { return size[0] > bounds.lowest || size[1] > bounds.narrowest; };
  if (const auto* const centre = std::get_if<CenterCropSpec>(&transform->spec))
    return Cropping{centre->size, exceeds(centre->size)};
  if (const auto* const crop = std::get_if<RandomCropSpec>(&transform->spec))
    return Cropping{crop->size, crop->padding != Sides{0, 0, 0, 0} || (crop->pad_if_needed && exceeds(crop->size))};
  return std::nullopt;
}

/// One of a list's transforms that resizes images of such sizes, with a crop that follows it, which is done with it:
/// Note [Resampling].
struct Resizing {
  AxisScale rows, columns;
  Pair kept{0, 0};  ///< of the resized image, at most
  std::optional<Cropping> crop;
  Resampling interpolation = Resampling::bilinear;
  std::int64_t shorter = 0;  ///< that the shorter side becomes, with the aspect kept and no crop behind; else 0
};

std::optional<Resizing> resizing_of(std::span<const TransformSpec> transforms, const SizeBounds& before) {
  const auto* const resize = std::get_if<ResizeSpec>(&transforms[0].spec);
  const auto* const part = std::get_if<RandomResizedCropSpec>(&transforms[0].spec);
  if (resize == nullptr && part == nullptr) return std::nullopt;
  Resizing resizing;
  resizing.interpolation = resize != nullptr ? resize->interpolation : part->interpolation;
  const SizeBounds after = bounds_after(before, transforms[0]);
  if (after.are_one_size()) {
    resizing.rows = {before.highest, after.highest, before.highest};
    resizing.columns = {before.widest, after.widest, before.widest};
  } else {
    // The longer side becomes floor(s · longer / shorter): s or more, and more than s · longer / shorter − 1.
    const std::int64_t shorter = resize->size.front();
    AxisScale scale{std::max(before.highest, before.widest), shorter};
    if (shorter > 1 && times(before.longest_shorter, shorter) < times(scale.source, shorter - 1))
      scale = {before.longest_shorter, shorter - 1};
    resizing.rows = resizing.columns = scale;
    resizing.rows.available = before.highest;
    resizing.columns.available = before.widest;
    resizing.shorter = shorter;
  }
  resizing.kept = {after.highest, after.widest};
  resizing.crop = cropping_of(transforms.size() > 1 ? &transforms[1] : nullptr, after);
  if (resizing.crop) {
    resizing.kept = smaller_of(resizing.kept, resizing.crop->size);
    resizing.shorter = 0;
  }
  return resizing;
}

/// Whether its steps make an image of another one: Note [Where steps write] in transforms/apply_steps.cpp.
bool makes_another(const TransformSpec& transform) {
  return !std::holds_alternative<FlipSpec>(transform.spec) &&
         !std::holds_alternative<ColorJitterSpec>(transform.spec) &&
         !std::holds_alternative<RandomErasingSpec>(transform.spec);
}

/// Pixels that are decoded at most: of transforms that begin with a crop, or a resize and a crop, those that they read.
std::int64_t most_pixels_decoded(std::span<const TransformSpec> transforms, const SizeBounds& sizes) {
  if (transforms.empty()) return sizes.most_pixels;
  Pair read{sizes.highest, sizes.widest};
  if (const auto crop = cropping_of(&transforms[0], sizes)) {
    read = smaller_of(read, crop->size);
  } else if (const auto resizing = resizing_of(transforms, sizes); resizing && resizing->crop) {
    read = {most_pixels_read(resizing->rows, resizing->kept[0], resizing->interpolation),
            most_pixels_read(resizing->columns, resizing->kept[1], resizing->interpolation)};
  }
  return std::min(sizes.most_pixels, pixels_of(read));
}

/// Images, and their masks, on their way through transforms.
class PreparedImages {
 public:
  PreparedImages(const ReaderTask& task, ReaderMemory& memory)
      : memory_(memory),
        sizes_(task.images.sizes),
        highest_(sizes_.highest),
        widest_(sizes_.widest),
        channels_(task.channels),
        has_masks_(task.has_masks) {}

  /// An image of which so many pixels are there, and the whole of its mask.
  void begin(std::int64_t num_pixels) {
    raise(memory_.image, times(num_pixels, channels_));
    if (has_masks_) raise(memory_.mask, sizes_.most_pixels);
  }
  void begin() {
    begin(sizes_.most_pixels);
    highest_ = sizes_.highest;
    widest_ = sizes_.widest;
  }

  /// `is_last`: what comes out of the last that makes another image is written to where the sample is wanted.
  void pass(std::span<const TransformSpec> transforms, bool is_last) {
    std::int64_t num_steps = 0;
    for (; !transforms.empty(); transforms = transforms.subspan(1)) {
      num_steps += TransformChain::most_steps(transforms[0]);
      const auto rest = transforms.subspan(1);
      is_sample_ = is_last && std::none_of(rest.begin(), rest.end(), makes_another);
      follow(transforms);
      sizes_ = bounds_after(sizes_, transforms[0]);
      raise(highest_, sizes_.highest);
      raise(widest_, sizes_.widest);
    }
    raise(memory_.num_steps, num_steps);
  }

 private:
  void follow(std::span<const TransformSpec> transforms) {
    if (const auto resizing = resizing_of(transforms, sizes_)) {
      const SizeBounds after = bounds_after(sizes_, transforms[0]);
      const std::int64_t num_pixels = resize(*resizing, after);
      // A crop that lies inside is what comes out of both. One with a border may follow a part that is not resized.
      const bool is_part = std::holds_alternative<RandomResizedCropSpec>(transforms[0].spec);
      if (!resizing->crop) become(num_pixels);
      if (resizing->crop && resizing->crop->may_pad) become(is_part ? after.most_pixels : num_pixels);
    } else if (const auto crop = cropping_of(&transforms[0], sizes_)) {
      become(pixels_of(crop->size));
    } else if (std::holds_alternative<RotateSpec>(transforms[0].spec)) {
      become(sizes_.most_pixels);
    } else if (std::holds_alternative<ToGreySpec>(transforms[0].spec)) {
      channels_ = TransformChain({transforms[0]}).channels_after(channels_);
      become(sizes_.most_pixels);
    }
  }

  /// Pixels that come out of it at most.
  std::int64_t resize(const Resizing& resizing, const SizeBounds& after) {
    const auto [height, width] = resizing.kept;
    const std::int64_t row_taps = most_taps(resizing.rows, resizing.interpolation);
    memory_.resize.rows.hold(height, row_taps);
    memory_.resize.columns.hold(width, most_taps(resizing.columns, resizing.interpolation));
    if (has_masks_) {
      memory_.resize.mask_rows.hold(height, 0);
      memory_.resize.mask_columns.hold(width, 0);
    }
    const std::int64_t num_pixels = std::min(pixels_of({height, width}), after.most_pixels);
    if (resizing.interpolation == Resampling::nearest) return num_pixels;
    // From the first row of the first pixel on, as many as the last one's first and all its weights.
    const std::int64_t rows =
        std::min(highest_, resizing.rows.source * (height - 1) / resizing.rows.target + 2 + row_taps);
    std::int64_t between = times(rows, width);
    // h · floor(s · w / h), or w · floor(s · h / w).
    if (resizing.shorter > 0)
      between = std::min(between, times(resizing.shorter, std::max(sizes_.highest, sizes_.widest)));
    raise(memory_.resize.between, times(between, channels_));
    raise(memory_.resize.last_row, times(widest_, channels_) + row_slack);
    return num_pixels;
  }

  void become(std::int64_t num_pixels) {
    if (!is_sample_) {
      raise(memory_.image, times(num_pixels, channels_));
      raise(memory_.spare_image, times(num_pixels, channels_));
    }
    if (!has_masks_) return;
    raise(memory_.mask, num_pixels);
    raise(memory_.spare_mask, num_pixels);
  }

  ReaderMemory& memory_;
  SizeBounds sizes_;
  /// Of the image that a resize reads, which crops before it may have left as it was.
  std::int64_t highest_, widest_;
  std::int64_t channels_;
  bool has_masks_;
  bool is_sample_ = false;  ///< what a transform makes is the sample, but for what is done to it where it is
};

}  // namespace

std::int64_t ReaderMemory::total() const {
  return file + mask_file + image + spare_image + mask + spare_mask + resize.num_bytes() + decoder + turned +
         num_steps * static_cast<std::int64_t>(sizeof(TransformStep));
}

ReaderMemory reader_memory(const ReaderTask& task) {
  const ImageFacts& images = task.images;
  ReaderMemory memory;
  memory.file = images.most_stored_bytes;
  memory.decoder = images.most_working_bytes;
  if (task.masks != nullptr) {
    memory.mask_file = task.masks->most_stored_bytes;
    raise(memory.decoder, task.masks->most_working_bytes);
  } else if (task.has_masks) {
    // A mask that is no file is made of its classes, and beside them.
    memory.mask_file = times(images.sizes.most_pixels, sizeof(std::int32_t) + 1);
  }
  const std::span<const TransformSpec> all = task.transforms;
  const auto fixed = all.first(task.is_cached ? TransformChain::num_fixed(task.transforms) : 0);
  const std::int64_t decoded =
      std::max(most_pixels_decoded(task.is_cached ? fixed : all, images.sizes), images.most_whole_pixels);
  memory.turned = times(std::min(decoded, images.most_turned_pixels), task.channels);
  if (task.masks != nullptr) raise(memory.turned, task.masks->most_turned_pixels);
  if (images.most_whole_pixels > 0) {
    memory.libwebp = libwebp_bytes(images.most_whole_pixels);
    constexpr std::int64_t colours = 3;
    if (task.channels == 1)
      raise(memory.decoder,
            RetainedMemory::own_bytes + RetainedMemory::piece_bytes(times(images.most_whole_pixels, colours)));
  }
  PreparedImages prepared(task, memory);
  prepared.begin(decoded);
  if (task.is_cached) {
    prepared.pass(fixed, /*is_last=*/false);
    prepared.begin();
  }
  prepared.pass(all.subspan(fixed.size()), /*is_last=*/true);
  return memory;
}

}  // namespace trainer
