#include "datasets/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "datasets/permutation.h"

namespace trainer {

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  require_internal(options.num_samples >= 0 && options.num_samples <= std::numeric_limits<std::uint32_t>::max() &&
                       options.batch_size >= 1 && options.parts.num_own >= 1,
                   "a sampler has samples and a batch size");
  if (options.drop_last && options.num_samples < options.batch_size)
    throw ConfigError(
        fmt::format("data.drop_last leaves no batch: {} samples do not fill one of {}; lower "
                    "train.batch_size or turn data.drop_last off",
                    options.num_samples, options.batch_size));
  options_.batch_size = std::max<std::int64_t>(1, std::min(options.batch_size, options.num_samples));
}

std::int64_t Sampler::num_whole_batches() const {
  if (options_.drop_last) return options_.num_samples / options_.batch_size;
  return (options_.num_samples + options_.batch_size - 1) / options_.batch_size;
}

std::int64_t Sampler::whole_size(std::int64_t batch) const {
  return std::min(options_.batch_size, options_.num_samples - begin_of_whole_batch(batch));
}

void Sampler::shuffle_in_windows(std::uint32_t epoch, std::vector<std::uint32_t>& order) const {
  constexpr std::size_t stretches_of_window = 4;
  const auto window = static_cast<std::size_t>(options_.shuffle_window);
  const std::size_t stretch = std::max<std::size_t>(1, window / stretches_of_window);
  std::vector<std::uint32_t> stretches((order.size() + stretch - 1) / stretch);
  fill_permutation(stretches, {options_.seed, shuffle_stream, epoch});
  std::size_t filled = 0;
  for (const std::uint32_t each : stretches)
    for (std::size_t i = each * stretch; i < std::min((each + std::size_t{1}) * stretch, order.size()); ++i)
      order[filled++] = static_cast<std::uint32_t>(i);
  const PhiloxStream stream{options_.seed, window_stream, epoch};
  for (std::size_t begin = 0; begin < order.size(); begin += window)
    shuffle_by(stream, begin, std::span(order).subspan(begin, std::min(window, order.size() - begin)));
}

void Sampler::order_of_epoch(std::int64_t epoch, std::vector<std::uint32_t>& order) const {
  order.resize(static_cast<std::size_t>(options_.num_samples));
  if (options_.shuffle && options_.shuffle_window > 0 && options_.shuffle_window < options_.num_samples) {
    shuffle_in_windows(static_cast<std::uint32_t>(epoch), order);
  } else if (options_.shuffle) {
    fill_permutation(order, {options_.seed, shuffle_stream, static_cast<std::uint32_t>(epoch)});
  } else {
    std::iota(order.begin(), order.end(), 0U);
  }
}

}  // namespace trainer
