#include "engine/plan/search/model_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/config/fields/model_numbers.h"

namespace trainer {

ModelDifference find_model_difference(const Experiment& before, const Experiment& after) {
  std::vector<LayerSpec> old_layers = before.layers, new_layers = after.layers;
  const std::vector<ModelNumber> old_numbers = numbers_of_model(old_layers), numbers = numbers_of_model(new_layers);
  ModelDifference difference;
  std::int64_t largest_ratio = 1;  // quotients were rounded down: of those above 1 it is below twice the divisor
  bool is_width = true;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t original = *old_numbers[i].value, value = *numbers[i].value;
    if (original == value) continue;
    difference.set.push_back(fmt::format("{}={}", numbers[i].key, value));
    largest_ratio = std::max(largest_ratio, original / value);
    is_width = numbers[i].is_width;
  }
  if (difference.set.size() == 1) {
    difference.part = is_width ? Effect::narrower_layer : Effect::fewer_repeats;
  } else {
    difference.part =
        NarrowerLayers{static_cast<std::int64_t>(difference.set.size()),
                       static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(largest_ratio)))};
  }
  return difference;
}

}  // namespace trainer
