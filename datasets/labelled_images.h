#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/image_files.h"

namespace trainer {

/// Image files with a class each (Target is std::int32_t), or with a list of numbers (float).
template <typename Target>
class LabelledImages final : public ImageSource {
 public:
  LabelledImages(std::string root, std::int64_t numbers_of_target)
      : files_(std::move(root)), numbers_of_target_(static_cast<std::size_t>(numbers_of_target)) {}

  /// `target`: as many as there are numbers of a target.
  void add(std::string_view path, const ImageFileFacts& facts, const Target* target) {
    files_.add(path, facts);
    targets_.insert(targets_.end(), target, target + numbers_of_target_);
    crc32_ = add_to_crc32(crc32_, path, facts, fmt::format("{}", fmt::join(target, target + numbers_of_target_, " ")));
  }
  void shrink() {
    files_.shrink();
    targets_.shrink_to_fit();
  }

  std::int64_t size() const override { return files_.size(); }
  const ImageFacts& facts() const override { return files_.facts(); }
  std::string name_of(std::int64_t index) const override { return files_.name_of(index); }
  StoredImage open(std::int64_t index, std::vector<std::byte>& memory) const override {
    return files_.open(index, memory);
  }
  std::uint64_t identity_of(std::int64_t index) const override { return files_.identity_of(index); }
  void read_target(std::int64_t index, std::byte* target) const override {
    std::memcpy(target, targets_.data() + static_cast<std::size_t>(index) * numbers_of_target_,
                numbers_of_target_ * sizeof(Target));
  }
  /// Of names, sizes and targets.
  std::optional<std::uint32_t> content_crc32() const override { return crc32_; }

  const std::vector<Target>& targets() const { return targets_; }
  /// Of host memory.
  std::int64_t held_bytes() const {
    return files_.held_bytes() + static_cast<std::int64_t>(targets_.capacity() * sizeof(Target));
  }

 private:
  ImageFiles files_;
  std::size_t numbers_of_target_;
  std::vector<Target> targets_;
  std::uint32_t crc32_ = 0;
};

}  // namespace trainer
