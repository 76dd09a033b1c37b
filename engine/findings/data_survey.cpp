#include "engine/findings/data_survey.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>

#include "datasets/file_scan.h"
#include "datasets/split.h"

namespace trainer {
namespace {

constexpr std::int64_t most_told_targets = 64;

/// Sums of numbers; of whole ones exact, so that their order does not matter.
struct Sums {
  double count = 0, sum = 0, squares = 0;
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();

  void add(double value) {
    count += 1;
    sum += value;
    squares += value * value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  void add(const Sums& other) {
    count += other.count;
    sum += other.sum;
    squares += other.squares;
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
  NumberFacts facts(double scale) const {
    if (count == 0) return {};
    const double mean = sum / count;
    return {least * scale, most * scale, mean * scale, std::sqrt(std::max(0.0, squares / count - mean * mean)) * scale};
  }
};

/// Of one sample.
struct SampleSums {
  std::vector<Sums> inputs;  // by channel, or one
  std::vector<float> targets;
};

class Survey {
 public:
  Survey(const LoadedData& data, DataSurvey& survey) : data_(data), survey_(survey) {
    const TensorType& input = data.train->input_types().front();
    num_channels_ = input.dtype == DType::u8 ? input.shape[-1] : 1;
    is_mask_ = data.train->categorical() && data.train->target_type().shape.rank() > 0;
    if (data.train->categorical()) survey_.train_counts.resize(static_cast<std::size_t>(data.description.num_outputs));
    survey_.counts_pixels = is_mask_;
  }

  void read(const std::vector<std::int64_t>& samples) {
    std::vector<SampleSums> sums(samples.size());
    scan_in_parallel(static_cast<std::int64_t>(samples.size()), [&]() -> Look {
      const std::shared_ptr<SampleReader> reader = data_.train->make_reader();
      const auto input = std::make_shared<std::vector<std::byte>>(bytes_of(data_.train->input_types().front()));
      const auto target = std::make_shared<std::vector<std::byte>>(bytes_of(data_.train->target_type()));
      return [this, &samples, &sums, reader, input, target](std::int64_t i) {
        reader->read(0, samples[static_cast<std::size_t>(i)], std::array{input->data(), target->data()});
        take(*input, *target, sums[static_cast<std::size_t>(i)]);
      };
    });
    add_up(sums);
  }

  void count_classes() {
    count_classes(*data_.train, survey_.train_counts);
    if (!data_.validation) return;
    survey_.validation_counts.resize(survey_.train_counts.size());
    count_classes(*data_.validation, survey_.validation_counts);
  }

 private:
  static std::size_t bytes_of(const TensorType& type) { return static_cast<std::size_t>(type.num_bytes()); }

  void count_classes(const Dataset& dataset, std::vector<std::int64_t>& counts) {
    for (std::int64_t i = 0; i < dataset.size(); ++i) count(dataset.class_of(i), counts);
  }
  void count(std::int32_t label, std::vector<std::int64_t>& counts) {
    if (label >= 0 && label < static_cast<std::int32_t>(counts.size()))
      ++counts[static_cast<std::size_t>(label)];
    else
      ++survey_.num_left_out;
  }

  void take(const std::vector<std::byte>& input, const std::vector<std::byte>& target, SampleSums& sums) {
    sums.inputs.resize(static_cast<std::size_t>(num_channels_));
    const TensorType& type = data_.train->input_types().front();
    if (type.dtype == DType::u8) {
      for (std::size_t i = 0; i < input.size(); ++i)
        sums.inputs[i % sums.inputs.size()].add(std::to_integer<int>(input[i]));
    } else if (type.dtype == DType::f32) {
      for (std::size_t i = 0; i < input.size(); i += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, input.data() + i, sizeof(value));
        sums.inputs.front().add(value);
      }
    }
    if (is_mask_) {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < target.size(); i += sizeof(std::int32_t)) {
        std::int32_t label = 0;
        std::memcpy(&label, target.data() + i, sizeof(label));
        count(label, survey_.train_counts);
      }
    } else if (!data_.train->categorical() && data_.train->target_type().num_elements() <= most_told_targets) {
      sums.targets.resize(target.size() / sizeof(float));
      std::memcpy(sums.targets.data(), target.data(), target.size());
    }
  }

  void add_up(const std::vector<SampleSums>& samples) {
    std::vector<Sums> inputs(static_cast<std::size_t>(num_channels_)), targets;
    for (const SampleSums& sample : samples) {
      for (std::size_t c = 0; c < sample.inputs.size(); ++c) inputs[c].add(sample.inputs[c]);
      targets.resize(std::max(targets.size(), sample.targets.size()));
      for (std::size_t t = 0; t < sample.targets.size(); ++t) targets[t].add(sample.targets[t]);
    }
    const bool are_pixels = data_.train->input_types().front().dtype == DType::u8;
    constexpr double of_pixels = 1.0 / 255;
    for (const Sums& channel : inputs)
      if (are_pixels)
        survey_.channels.push_back(channel.facts(of_pixels));
      else
        survey_.numbers = channel.facts(1);
    for (const Sums& target : targets) survey_.targets.push_back(target.facts(1));
  }

  const LoadedData& data_;
  DataSurvey& survey_;
  std::int64_t num_channels_ = 1;
  bool is_mask_ = false;
  std::mutex mutex_;
};

}  // namespace

std::vector<std::int64_t> chosen_samples(std::int64_t num_train, std::uint64_t seed, std::int64_t most_samples) {
  const std::int64_t count = std::min(num_train, most_samples);
  const std::vector<std::uint32_t> chosen = split_samples(num_train, 0, seed, count).train;
  return {chosen.begin(), chosen.end()};
}

DataSurvey survey_data(const LoadedData& data, std::uint64_t seed, std::int64_t most_samples) {
  DataSurvey result;
  Survey survey(data, result);
  const std::vector<std::int64_t> samples = chosen_samples(data.train->size(), seed, most_samples);
  result.num_surveyed = static_cast<std::int64_t>(samples.size());
  survey.read(samples);
  if (data.train->categorical() && !result.counts_pixels) survey.count_classes();
  return result;
}

}  // namespace trainer
