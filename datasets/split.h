#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "datasets/dataset.h"

namespace trainer {

/// How many of `num_samples` training samples `data.split` sets aside for validation: round(split × num_samples), or
/// `default_num` without a split. ConfigError where that leaves training or validation empty.
std::int64_t num_set_aside(const DataConfig& config, std::int64_t num_samples, std::int64_t default_num = 0);

struct Split {
  std::vector<std::uint32_t> train, validation;  ///< of 0 … num_samples − 1, disjoint, each ascending
};

/// A random choice of `num_validation` samples and, of the others, all or with `num_train` so many; a function of the
/// numbers. Whatever `num_train` is, the same samples are set aside.
Split split_samples(std::int64_t num_samples, std::int64_t num_validation, std::uint64_t seed,
                    std::optional<std::int64_t> num_train = std::nullopt);

/// Some samples of another dataset, under new numbers.
class SubsetDataset final : public Dataset {
 public:
  SubsetDataset(std::shared_ptr<const Dataset> all, std::vector<std::uint32_t> indices)
      : Dataset(all->input_types(), all->target_type()), all_(std::move(all)), indices_(std::move(indices)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    all_->read(indices_[static_cast<std::size_t>(index)], fields);
  }
  void read_classes(std::int64_t index, std::int32_t* classes) const override {
    all_->read_classes(indices_[static_cast<std::size_t>(index)], classes);
  }
  std::unique_ptr<SampleReader> make_reader() const override;
  std::int64_t number_of(std::int64_t index) const override {
    return all_->number_of(indices_[static_cast<std::size_t>(index)]);
  }
  std::string name_of(std::int64_t index) const override {
    return all_->name_of(indices_[static_cast<std::size_t>(index)]);
  }
  std::optional<std::uint32_t> content_crc32() const override { return all_->content_crc32(); }

 private:
  std::shared_ptr<const Dataset> all_;
  std::vector<std::uint32_t> indices_;
};

}  // namespace trainer
