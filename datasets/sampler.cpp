#include "datasets/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "datasets/permutation.h"

namespace trainer {

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  require_internal(options.num_samples >= 0 && options.num_samples <= std::numeric_limits<std::uint32_t>::max() &&
                       options.batch_size >= 1,
                   "a sampler has samples and a batch size");
  if (options.drop_last && options.num_samples < options.batch_size)
    throw ConfigError(
        fmt::format("data.drop_last leaves no batch: {} samples do not fill one of {}; lower "
                    "train.batch_size or turn data.drop_last off",
                    options.num_samples, options.batch_size));
  options_.batch_size = std::max<std::int64_t>(1, std::min(options.batch_size, options.num_samples));
}

std::int64_t Sampler::num_batches() const {
  if (options_.drop_last) return options_.num_samples / options_.batch_size;
  return (options_.num_samples + options_.batch_size - 1) / options_.batch_size;
}

std::int64_t Sampler::size_of_batch(std::int64_t batch) const {
  return std::min(options_.batch_size, options_.num_samples - begin_of_batch(batch));
}

void Sampler::order_of_epoch(std::int64_t epoch, std::vector<std::uint32_t>& order) const {
  order.resize(static_cast<std::size_t>(options_.num_samples));
  if (options_.shuffle) {
    fill_permutation(order, {options_.seed, shuffle_stream, static_cast<std::uint32_t>(epoch)});
  } else {
    std::iota(order.begin(), order.end(), 0U);
  }
}

}  // namespace trainer
