#include "engine/plan/search/model_cuts.h"

#include <algorithm>
#include <utility>

#include "engine/config/fields/model_numbers.h"
#include "engine/plan/search/minimal_change.h"
#include "engine/plan/search/model_difference.h"

namespace trainer {
namespace {

/// The largest value below `original` that fits, if it does for all smaller ones; 0 where none.
template <typename FitsWith>
std::int64_t largest_below(std::int64_t original, const FitsWith& fits_with) {
  std::int64_t low = 0, high = original;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits_with(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::vector<Experiment> single_cuts(const Experiment& experiment, const Fits& fits) {
  if (fits(experiment)) return {};
  Experiment changed = experiment;
  std::vector<ModelNumber> numbers = numbers_of_model(changed.layers);
  // The last width is the number of classes.
  const std::int64_t* classes = nullptr;
  for (const ModelNumber& number : numbers)
    if (number.is_width) classes = number.value;
  std::erase_if(numbers, [&](const ModelNumber& number) { return number.value == classes || *number.value <= 1; });
  std::stable_sort(numbers.begin(), numbers.end(),
                   [](const ModelNumber& a, const ModelNumber& b) { return *a.value > *b.value; });
  struct Lowered {
    const ModelNumber* number;
    std::int64_t original, largest;
  };
  std::vector<Lowered> lowered;
  // Each is tried at many values.
  constexpr std::size_t most_tried = 4;
  for (std::size_t i = 0; i < std::min(numbers.size(), most_tried); ++i) {
    const ModelNumber& number = numbers[i];
    const std::int64_t original = *number.value;
    const auto fits_with = [&](std::int64_t value) {
      *number.value = value;
      return fits(changed);
    };
    const std::int64_t largest = fits_with(1) ? std::max<std::int64_t>(largest_below(original, fits_with), 1) : 0;
    *number.value = original;
    if (largest > 0) lowered.push_back({&number, original, largest});
  }
  std::stable_sort(lowered.begin(), lowered.end(), [](const Lowered& a, const Lowered& b) {
    return static_cast<double>(a.largest) / static_cast<double>(a.original) >
           static_cast<double>(b.largest) / static_cast<double>(b.original);
  });
  if (lowered.size() > 3) lowered.resize(3);
  std::vector<Experiment> cuts;
  for (const Lowered& cut : lowered) {
    *cut.number->value = cut.largest;
    cuts.push_back(changed);
    *cut.number->value = cut.original;
  }
  return cuts;
}

std::optional<Experiment> even_cut(const Experiment& experiment, const Fits& fits) {
  if (fits(experiment)) return std::nullopt;
  for (std::int64_t divisor = 2; divisor <= 64; divisor *= 2) {
    Experiment cut = experiment;
    std::vector<ModelNumber> numbers = numbers_of_model(cut.layers);
    std::erase_if(numbers, [](const ModelNumber& number) { return !number.is_width; });
    if (numbers.size() < 2 || numbers.size() > 9) return std::nullopt;
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i)
      *numbers[i].value = std::max<std::int64_t>(*numbers[i].value / divisor, 1);
    if (!fits(cut)) continue;
    cut = minimal_change(experiment, std::move(cut), fits);
    // One layer alone is better cut to the width that fits.
    return find_model_difference(experiment, cut).set.size() > 1 ? std::optional(std::move(cut)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace trainer
