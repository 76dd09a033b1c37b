#include "engine/train/run_stages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"

namespace trainer {

RunStages::RunStages(const Experiment& whole, LoadedData data, const TrainingOptions& options)
    : whole_(whole), key_(key_of_data(whole)), data_(std::move(data)) {
  last_ = count() - 1;
  if (!options.from_stage.empty()) first_ = find_stage(whole_, options.from_stage, "--from");
  if (!options.until_stage.empty()) last_ = find_stage(whole_, options.until_stage, "--until");
  if (first_ > last_)
    throw ConfigError(fmt::format("--from {} comes behind --until {}", options.from_stage, options.until_stage));
}

std::string RunStages::key_of_data(const Experiment& experiment) {
  const auto json = nlohmann::json::parse(resolved_json(experiment), nullptr, false);
  return json.is_object() && json.contains("data") ? json["data"].dump() : "";
}

const LoadedData& RunStages::data_of(std::size_t stage) {
  std::string key = key_of_data(experiment(stage));
  if (key == key_) return data_;
  data_ = {};  // it goes before the next comes
  data_ = load_data(experiment(stage).data, experiment(stage).seed);
  key_ = std::move(key);
  return data_;
}

DataDescription RunStages::description_of(std::size_t stage) const {
  return has_other_data(stage) ? describe_data(experiment(stage).data, experiment(stage).seed) : data_.description;
}

}  // namespace trainer
