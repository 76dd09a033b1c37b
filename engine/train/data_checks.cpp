#include "engine/train/data_checks.h"

#include <fmt/format.h>

#include "engine/config/diagnostic.h"

namespace trainer {
namespace {

/// Whether any sample is of a class that has a weight.
bool has_weight(const std::vector<double>& class_weights, const Dataset& dataset) {
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const auto target = static_cast<std::size_t>(dataset.class_of(i));
    if (target >= class_weights.size() || class_weights[target] > 0) return true;  // too few weights are refused anyway
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
