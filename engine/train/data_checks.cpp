#include "engine/train/data_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/config/diagnostic.h"

namespace trainer {
namespace {

/// Whether any sample is of a class that has a weight.
bool has_weight(const std::vector<double>& class_weights, const Dataset& dataset) {
  const auto weighs = [&](std::int32_t target) {
    const auto position = static_cast<std::size_t>(target);
    return position >= class_weights.size() || class_weights[position] > 0;  // too few weights are refused anyway
  };
  std::vector<std::int32_t> classes(static_cast<std::size_t>(dataset.target_type().num_elements()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    dataset.read_classes(i, classes.data());
    if (std::any_of(classes.begin(), classes.end(), weighs)) return true;
  }
  return false;
}

}  // namespace

void check_data(const Experiment& experiment, const LoadedData& data) {
  const LossConfig& loss = experiment.loss;
  if (loss.type != LossType::cross_entropy || loss.class_weights.empty() || !data.train->categorical()) return;
  for (const auto& [name, dataset] : {std::pair{"training", data.train.get()}, {"validation", data.validation.get()}}) {
    if (dataset == nullptr || has_weight(loss.class_weights, *dataset)) continue;
    throw located_error(loss.class_weights_location,
                        fmt::format("all {} samples are of classes whose weight is 0: their mean loss is 0 / 0", name),
                        "a weight above 0 for a class that occurs");
  }
}

}  // namespace trainer
