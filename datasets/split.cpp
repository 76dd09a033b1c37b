#include "datasets/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "datasets/dataset_format.h"
#include "datasets/permutation.h"

namespace trainer {

std::int64_t num_set_aside(const DataConfig& config, std::int64_t num_samples, std::int64_t default_num) {
  if (config.split <= 0) return default_num;
  const std::int64_t num_validation = std::llround(config.split * static_cast<double>(num_samples));
  if (num_validation < 1 || num_validation >= num_samples)
    throw data_config_error(config,
                            fmt::format("data.split {} of {} samples leaves {} for training and {} for "
                                        "validation",
                                        config.split, num_samples, num_samples - num_validation, num_validation));
  return num_validation;
}

namespace {

/// Of some samples of a whole, by the whole's own.
class SubsetReader final : public SampleReader {
 public:
  SubsetReader(std::unique_ptr<SampleReader> all, const std::vector<std::uint32_t>& indices)
      : all_(std::move(all)), indices_(indices) {}
  void read(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) override {
    all_->read(epoch, indices_[static_cast<std::size_t>(index)], fields);
  }
  void read_classes(std::int64_t epoch, std::int64_t index, std::int32_t* classes) override {
    all_->read_classes(epoch, indices_[static_cast<std::size_t>(index)], classes);
  }
  std::int64_t held_bytes() const override { return all_->held_bytes(); }
  bool time_stages(StageTimes* times) override { return all_->time_stages(times); }

 private:
  std::unique_ptr<SampleReader> all_;
  const std::vector<std::uint32_t>& indices_;
};

}  // namespace

std::unique_ptr<SampleReader> SubsetDataset::make_reader() const {
  return std::make_unique<SubsetReader>(all_->make_reader(), indices_);
}

Split split_samples(std::int64_t num_samples, std::int64_t num_validation, std::uint64_t seed,
                    std::optional<std::int64_t> num_train) {
  const std::int64_t num_chosen = num_validation + num_train.value_or(num_samples - num_validation);
  require_internal(num_chosen <= num_samples, "a split has no more samples than there are");
  std::vector<std::uint32_t> order(static_cast<std::size_t>(num_samples));
  fill_permutation(order, {seed, split_stream, 0});
  Split split;
  split.validation.assign(order.begin(), order.begin() + num_validation);
  split.train.assign(order.begin() + num_validation, order.begin() + num_chosen);
  // Ascending: neighbours stay neighbours in memory, and an evaluation reads forwards.
  std::sort(split.validation.begin(), split.validation.end());
  std::sort(split.train.begin(), split.train.end());
  return split;
}

}  // namespace trainer
