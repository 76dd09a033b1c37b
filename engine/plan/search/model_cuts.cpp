#include "engine/plan/search/model_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/config/fields/model_numbers.h"
#include "engine/config/load_experiment.h"
#include "engine/errors.h"
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

std::int64_t last_width(std::vector<LayerSpec> layers) {
  std::int64_t width = 0;
  for (const ModelNumber& number : numbers_of_model(layers))
    if (number.is_width) width = *number.value;
  return width;
}

/// The largest value of a parameter that fits, below its own.
class ParameterSearch {
 public:
  ParameterSearch(const Experiment& experiment, const IntegerParameter& parameter, const TryCut& try_cut)
      : experiment_(experiment), parameter_(parameter), try_cut_(try_cut) {}

  std::optional<std::int64_t> find() const {
    if (!parameter_.one_of.empty()) return find_choice();
    // What is not divided without a remainder is no model: the values that are lie a step apart.
    std::int64_t step = 1;
    while (step <= parameter_.value / 2 && answer(parameter_.value - step) == CutAnswer::cannot_be) step *= 2;
    const std::int64_t num_steps = (parameter_.value - 1) / step;
    const auto fits_after = [&](std::int64_t count) {
      return answer(parameter_.value - count * step) == CutAnswer::fits;
    };
    if (num_steps < 1 || !fits_after(num_steps)) return std::nullopt;
    std::int64_t low = 0, high = num_steps;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits_after(middle) ? high : low) = middle;
    }
    return parameter_.value - high * step;
  }

  std::string override_to(std::int64_t value) const { return fmt::format("{}={}", parameter_.key, value); }

  /// Nothing where the model does not take the value, or its last width, the classes, is another one with it.
  std::optional<Experiment> with(std::int64_t value) const {
    try {
      Experiment read = read_again(experiment_, override_to(value));
      if (last_width(read.layers) != last_width(experiment_.layers)) return std::nullopt;
      Experiment changed = experiment_;
      changed.layers = std::move(read.layers);
      return changed;
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }

 private:
  CutAnswer answer(std::int64_t value) const {
    const std::optional<Experiment> changed = with(value);
    return changed ? try_cut_(*changed) : CutAnswer::cannot_be;
  }

  std::optional<std::int64_t> find_choice() const {
    std::vector<std::int64_t> lower = parameter_.one_of;
    std::erase_if(lower, [&](std::int64_t value) { return value >= parameter_.value; });
    std::sort(lower.begin(), lower.end(), std::greater());
    const auto found =
        std::find_if(lower.begin(), lower.end(), [&](std::int64_t value) { return answer(value) == CutAnswer::fits; });
    return found == lower.end() ? std::nullopt : std::optional(*found);
  }

  const Experiment& experiment_;
  const IntegerParameter& parameter_;
  const TryCut& try_cut_;
};

}  // namespace

std::vector<ParameterCut> parameter_cuts(const Experiment& experiment, const TryCut& try_cut) {
  if (experiment.source == nullptr || try_cut(experiment) != CutAnswer::does_not_fit) return {};
  struct Lowered {
    double share = 0;
    ParameterCut cut;
  };
  std::vector<Lowered> lowered;
  constexpr int most_tried = 8;  // each is read and planned several times
  int num_tried = 0;
  for (const IntegerParameter& parameter : experiment.model_parameters) {
    if (parameter.value <= 1 || experiment.computed_from.contains(parameter.key)) continue;
    if (++num_tried > most_tried) break;
    const ParameterSearch search(experiment, parameter, try_cut);
    if (const std::optional<std::int64_t> value = search.find())
      lowered.push_back({static_cast<double>(*value) / static_cast<double>(parameter.value),
                         {search.with(*value).value(), search.override_to(*value)}});
  }
  std::stable_sort(lowered.begin(), lowered.end(),
                   [](const Lowered& a, const Lowered& b) { return a.share > b.share; });
  if (lowered.size() > 3) lowered.resize(3);
  std::vector<ParameterCut> cuts;
  cuts.reserve(lowered.size());
  for (Lowered& each : lowered) cuts.push_back(std::move(each.cut));
  return cuts;
}

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
