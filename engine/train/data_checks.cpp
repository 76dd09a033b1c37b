#include "engine/train/data_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "datasets/batch_reader.h"
#include "engine/config/diagnostic.h"

namespace trainer {
namespace {

/// Whether any target is of a class that has a weight, and not ignored.
bool has_weight(const LossConfig& loss, const Dataset& dataset) {
  const auto weighs = [&](std::int32_t target) {
    const auto position = static_cast<std::size_t>(target);
    // Too few weights are refused anyway.
    return target != loss.ignore_index && (position >= loss.class_weights.size() || loss.class_weights[position] > 0);
  };
  std::vector<std::int32_t> classes(static_cast<std::size_t>(dataset.target_type().num_elements()));
  const std::unique_ptr<SampleReader> reader = dataset.make_reader();
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    reader->read_classes(0, i, classes.data());
    if (std::any_of(classes.begin(), classes.end(), weighs)) return true;
  }
  return false;
}

void check_weights(const LossConfig& loss, const LoadedData& data) {
  if (loss.class_weights.empty() && loss.ignore_index < 0 && !data.description.has_negative_targets) return;
  for (const auto& [name, dataset] : {std::pair{"training", data.train.get()}, {"validation", data.validation.get()}}) {
    if (dataset == nullptr || has_weight(loss, *dataset)) continue;
    if (loss.class_weights.empty()) {
      throw located_error(loss.location,
                          fmt::format("all {} targets are {}, which the loss ignores", name, loss.ignore_index),
                          "another loss.ignore_index");
    }
    throw located_error(loss.class_weights_location,
                        fmt::format("all {} samples are of classes whose weight is 0: their mean loss is 0 / 0", name),
                        "a weight above 0 for a class that occurs");
  }
}

}  // namespace

void read_every_sample(const LoadedData& data, int num_workers) {
  constexpr std::int64_t batch_size = 16;
  for (const auto& dataset : {data.train, data.validation}) {
    if (!dataset) continue;
    BatchReaderOptions options;
    options.endless = false;
    options.num_workers = num_workers;
    BatchReader reader(*dataset, Sampler({.num_samples = dataset->size(), .batch_size = batch_size}), options);
    while (reader.next() != nullptr) continue;
  }
}

void check_data(const Experiment& experiment, const LoadedData& data) {
  if (!data.train->categorical()) return;
  for (const LossConfig& loss : experiment.losses)
    if (takes_classes(loss.type)) check_weights(loss, data);
}

}  // namespace trainer
