#include "engine/train/run_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "engine/config/load_experiment.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {

RunStages::RunStages(const Experiment& whole, LoadedData data, const TrainingOptions& options)
    : whole_(whole), key_(key_of_data(whole)), data_(std::move(data)) {
  last_ = count() - 1;
  if (!options.from_stage.empty()) first_ = find(options.from_stage, "--from");
  if (!options.until_stage.empty()) last_ = find(options.until_stage, "--until");
  if (first_ > last_)
    throw ConfigError(fmt::format("--from {} comes behind --until {}", options.from_stage, options.until_stage));
}

std::size_t RunStages::find(const std::string& name, std::string_view option) const {
  if (!has_stages())
    throw ConfigError(fmt::format("{} {}: the configuration has no stages", option, shortened(name)));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count(); ++i) {
    if (name_of(i) == name) return i;
    names.push_back(name_of(i));
  }
  const std::string_view near = nearest(name, names);
  throw ConfigError(fmt::format("{} {}: there is no such stage; expected one of {}{}", option, shortened(name),
                                fmt::join(names, ", "), near.empty() ? "" : fmt::format("; did you mean {}?", near)));
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
