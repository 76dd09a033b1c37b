#include "engine/config/feature_rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/config/layer_reader.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {

void check_feature(const FeatureConfig& feature, const GivenKeys& given, const std::string& prefix,
                   SourceSet& sources) {
  const auto refuse = [&](const char* key, std::string message, std::string expectation) {
    const std::string whole = prefix + key;
    if (!given.broken.contains(whole)) sources.report(given.mark(whole), std::move(message), std::move(expectation));
  };
  const bool names_network = given.has(prefix + "network.layers");
  if (feature.network.empty() && !(names_network && sources.has_mistakes()))
    refuse("network", "a loss on features needs 'network', the layers that make them",
           "network: {file: models/vgg16.yaml, weights: {file: vgg16.safetensors}}");
  else if (num_expanded_layers(feature.network) > most_layers)
    refuse("network.layers", fmt::format("more than {} layers once every repeat is written out", most_layers), "fewer");
  if (feature.weights.file.empty())
    refuse("network.weights.file", "a loss on features needs 'network.weights.file', what its network has learned",
           "a safetensors file, an index of shards or a folder");
  if (feature.layers.empty())
    refuse("layers", "a loss on features needs 'layers', whose outputs it compares",
           "layers of its network by their paths, such as [features.8, features.15]");
  std::vector<std::string> sorted = feature.layers;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    refuse("layers", fmt::format("'layers' names '{}' twice", shortened(*twice)), "each layer once");
  const std::vector<double>& weights = feature.layer_weights;
  if (!weights.empty() && weights.size() != feature.layers.size())
    refuse("layer_weights",
           fmt::format("'layer_weights' has {} values for {} layers", weights.size(), feature.layers.size()),
           "a weight for each layer");
  else if (!weights.empty() && std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; }))
    refuse("layer_weights", "all of 'layer_weights' are 0", "at least one above 0");
  if (feature.mean.empty() != feature.std.empty()) {
    const bool has_mean = !feature.mean.empty();
    refuse(has_mean ? "mean" : "std",
           fmt::format("'{}' needs '{}'", has_mean ? "mean" : "std", has_mean ? "std" : "mean"), "both");
  } else if (feature.mean.size() > 1 && feature.std.size() > 1 && feature.mean.size() != feature.std.size()) {
    refuse("std", fmt::format("{} means, but {} standard deviations", feature.mean.size(), feature.std.size()),
           "as many of both");
  }
}

void locate_feature_keys(FeatureConfig& feature, const GivenKeys& given, const std::string& prefix,
                         const SourceSet& sources) {
  const auto location = [&](const char* key) { return sources.location(given.mark(prefix + key)); };
  feature.layers_location = location("layers");
  feature.mean_location = location("mean");
  feature.weights.rename_location = location("network.weights.rename");
  feature.weights.transpose_location = location("network.weights.transpose");
  feature.weights.ignore_location = location("network.weights.ignore");
}

}  // namespace trainer
