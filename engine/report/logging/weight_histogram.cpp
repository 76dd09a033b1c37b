#include "engine/report/logging/weight_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/files/protobuf_message.h"

namespace trainer {
namespace {

/// The limits, and for each value of the upper half of a float's bits a bucket at or a few before that of all floats
/// that begin so: these differ by less than a bucket is wide, so that few steps lead to the right one.
struct HistogramBuckets {
  std::vector<double> limits;
  std::vector<std::uint16_t> first_of;

  HistogramBuckets() {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    limits.push_back(-std::numeric_limits<double>::max());
    for (std::size_t i = positive.size(); i-- > 0;) limits.push_back(-positive[i]);
    limits.push_back(0);
    limits.insert(limits.end(), positive.begin(), positive.end());
    limits.push_back(std::numeric_limits<double>::max());
    first_of.resize(std::size_t{1} << 16U);
    for (std::uint32_t upper = 0; upper < first_of.size(); ++upper) {
      // Of negative ones the lower end is that of the largest bits.
      const auto end = std::bit_cast<float>(upper << 16U | ((upper & 0x8000U) != 0 ? 0xffffU : 0U));
      if (!std::isfinite(end)) continue;
      first_of[upper] = static_cast<std::uint16_t>(
          std::upper_bound(limits.begin(), limits.end(), static_cast<double>(end)) - limits.begin());
    }
  }
};

const HistogramBuckets& histogram_buckets() {
  static const HistogramBuckets all;
  return all;
}

}  // namespace

WeightHistogram::WeightHistogram() : counts_(histogram_buckets().limits.size(), 0) {}

void WeightHistogram::add(std::span<const float> numbers) {
  const HistogramBuckets& buckets = histogram_buckets();
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    std::size_t bucket = buckets.first_of[std::bit_cast<std::uint32_t>(number) >> 16U];
    while (buckets.limits[bucket] <= static_cast<double>(number)) ++bucket;
    ++counts_[bucket];
    ++count_;
    const auto value = static_cast<double>(number);
    sum_ += value;
    sum_of_squares_ += value * value;
    least_ = std::min(least_, number);
    most_ = std::max(most_, number);
  }
}

std::string WeightHistogram::message() const {
  const std::vector<double>& limits = histogram_buckets().limits;
  const auto is_filled = [](std::int64_t count) { return count > 0; };
  const auto first =
      static_cast<std::size_t>(std::find_if(counts_.begin(), counts_.end(), is_filled) - counts_.begin());
  const auto behind =
      static_cast<std::size_t>(counts_.rend() - std::find_if(counts_.rbegin(), counts_.rend(), is_filled));
  ProtobufMessage message;
  message.add_double(1, count_ == 0 ? 0.0 : static_cast<double>(least_));
  message.add_double(2, count_ == 0 ? 0.0 : static_cast<double>(most_));
  message.add_double(3, static_cast<double>(count_));
  message.add_double(4, sum_);
  message.add_double(5, sum_of_squares_);
  std::vector<double> shown_limits, shown_counts;
  for (std::size_t bucket = first; bucket < behind; ++bucket) {
    shown_limits.push_back(limits[bucket]);
    shown_counts.push_back(static_cast<double>(counts_[bucket]));
  }
  message.add_doubles(6, shown_limits);
  message.add_doubles(7, shown_counts);
  return message.bytes();
}

}  // namespace trainer
