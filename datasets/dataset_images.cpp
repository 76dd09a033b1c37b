#include "datasets/dataset_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace trainer {
namespace {

/// Where a sample's target lies behind its pixels.
std::int64_t target_begin_of(const TensorType& image) {
  constexpr std::int64_t alignment = 64;
  return (image.num_bytes() + alignment - 1) / alignment * alignment;
}

class DatasetImages final : public ImageSource {
 public:
  DatasetImages(std::shared_ptr<const Dataset> dataset, std::int32_t ignored_target) : dataset_(std::move(dataset)) {
    facts_ = facts_of_pixels(dataset_->input_types().front(), dataset_->target_type());
    for (std::int32_t value = 0; value < ignored_value; ++value) classes_[static_cast<std::size_t>(value)] = value;
    classes_[ignored_value] = ignored_target;
  }

  std::int64_t size() const override { return dataset_->size(); }
  const ImageFacts& facts() const override { return facts_; }
  std::string name_of(std::int64_t index) const override { return fmt::format("sample {}", index); }

  StoredImage open(std::int64_t index, std::vector<std::byte>& memory) const override {
    const TensorType& image = dataset_->input_types().front();
    const auto pixel_bytes = static_cast<std::size_t>(image.num_bytes());
    const auto target_begin = static_cast<std::size_t>(target_begin_of(image));
    memory.resize(target_begin + static_cast<std::size_t>(dataset_->target_type().num_bytes()));
    const std::array<std::byte*, 2> fields = {memory.data(), memory.data() + target_begin};
    dataset_->read(index, fields);
    return {std::span(memory).first(pixel_bytes), false, *facts_.size, dataset_->input_types().front().shape[2]};
  }

  bool has_masks() const override { return dataset_->target_type().shape.rank() == 2; }
  StoredImage open_mask(std::int64_t index, std::vector<std::byte>& memory) const override {
    const Shape& shape = dataset_->target_type().shape;
    const auto count = static_cast<std::size_t>(shape.num_elements());
    memory.resize(count * (sizeof(std::int32_t) + 1));
    std::byte* const classes = memory.data();
    dataset_->read_classes(index, reinterpret_cast<std::int32_t*>(classes));
    std::byte* const values = memory.data() + count * sizeof(std::int32_t);
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t target = 0;
      std::memcpy(&target, classes + i * sizeof(target), sizeof(target));
      const bool is_ignored = target == classes_[ignored_value];
      if (!is_ignored && (target < 0 || target >= ignored_value))
        throw DataError(
            fmt::format("{} has class {}; masks that are transformed have classes from 0 to {}, and that of "
                        "loss.ignore_index",
                        name_of(index), target, ignored_value - 1));
      values[i] = static_cast<std::byte>(is_ignored ? ignored_value : target);
    }
    return {std::span(memory).last(count), false, Pair{shape[0], shape[1]}, 1};
  }
  std::span<const std::int32_t> mask_classes() const override { return classes_; }
  void read_target(std::int64_t index, std::byte* target) const override {
    dataset_->read_classes(index, reinterpret_cast<std::int32_t*>(target));
  }
  std::optional<std::uint32_t> content_crc32() const override { return dataset_->content_crc32(); }

 private:
  static constexpr std::int32_t ignored_value = 255;

  std::shared_ptr<const Dataset> dataset_;
  ImageFacts facts_;
  std::array<std::int32_t, 256> classes_{};
};

}  // namespace

ImageFacts facts_of_pixels(const TensorType& image, const TensorType& target) {
  const Shape& shape = image.shape;
  ImageFacts facts;
  facts.size = facts.smallest = facts.largest = Pair{shape[0], shape[1]};
  facts.sizes.add({shape[0], shape[1]});
  facts.most_stored_bytes = target_begin_of(image) + target.num_bytes();
  return facts;
}

std::shared_ptr<const ImageSource> images_of(std::shared_ptr<const Dataset> dataset, std::int32_t ignored_target) {
  return std::make_shared<DatasetImages>(std::move(dataset), ignored_target);
}

}  // namespace trainer
