#include "engine/config/yaml/templates.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/text/nearest_word.h"
#include "engine/embedded_files.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// The first is the one to begin with.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> helps{{
    {"mlp", "a multi-layer perceptron on the digits that come with trainer"},
    {"cnn", "a convolutional network with batch normalization"},
    {"resnet", "ResNet-18 for CIFAR-10"},
    {"csv", "a table with a categorical or numeric target"},
    {"images", "ResNet-18 for your own images, in a folder for each class"},
}};

}  // namespace

std::vector<ConfigTemplate> config_templates() {
  std::vector<ConfigTemplate> templates;
  templates.reserve(helps.size());
  for (const auto& [name, help] : helps) templates.push_back({name, help, text_of(template_files(), name)});
  return templates;
}

ConfigTemplate config_template(std::string_view name) {
  std::vector<std::string> names;
  for (const ConfigTemplate& each : config_templates()) {
    if (each.name == name) return each;
    names.emplace_back(each.name);
  }
  std::string message = fmt::format("there is no template '{}'\n  expected: one of {}", name, fmt::join(names, ", "));
  const std::string_view suggestion = nearest(name, names);
  if (!suggestion.empty()) message += fmt::format("\n  did you mean '{}'?", suggestion);
  throw ConfigError(message);
}

}  // namespace trainer
