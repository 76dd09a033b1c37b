#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "datasets/dataset.h"

namespace trainer {

/// Samples and targets held in host memory, one after another.
class MemoryDataset final : public Dataset {
 public:
  /// `samples` is num_samples × sample bytes, `targets` the same for targets.
  MemoryDataset(const TensorType& sample_type, const TensorType& target_type, std::vector<std::byte> samples,
                std::vector<std::byte> targets)
      : Dataset({sample_type}, target_type),
        sample_bytes_(static_cast<std::size_t>(sample_type.num_bytes())),
        target_bytes_(static_cast<std::size_t>(target_type.num_bytes())),
        samples_(std::move(samples)),
        targets_(std::move(targets)) {
    require_internal(samples_.size() / sample_bytes_ == targets_.size() / target_bytes_,
                     "a dataset has as many samples as targets");
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(targets_.size() / target_bytes_); }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    std::memcpy(fields[0], samples_.data() + static_cast<std::size_t>(index) * sample_bytes_, sample_bytes_);
    read_target(index, fields[1]);
  }
  void read_classes(std::int64_t index, std::int32_t* classes) const override {
    require_internal(categorical(), "classes belong to categorical data");
    read_target(index, classes);
  }
  std::optional<std::uint32_t> content_crc32() const override;

 private:
  void read_target(std::int64_t index, void* target) const {
    std::memcpy(target, targets_.data() + static_cast<std::size_t>(index) * target_bytes_, target_bytes_);
  }

  std::size_t sample_bytes_;
  std::size_t target_bytes_;
  std::vector<std::byte> samples_;
  std::vector<std::byte> targets_;
};

/// Labels of one byte each as i32 targets.
inline std::vector<std::byte> targets_of_labels(const std::vector<std::byte>& labels) {
  std::vector<std::byte> targets(labels.size() * sizeof(std::int32_t));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = std::to_integer<std::int32_t>(labels[i]);
    std::memcpy(targets.data() + i * sizeof(label), &label, sizeof(label));
  }
  return targets;
}

}  // namespace trainer
