#include "engine/graph/frozen_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/config/diagnostic.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// The paths of all layers that have an output of their own, with every repeat written out.
void collect_paths(const std::vector<LayerSpec>& layers, const std::string& prefix, std::vector<std::string>& paths) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& layer = layers[i];
    const std::string path = path_of_layer(layer, i, prefix);
    if (const auto* residual = std::get_if<ResidualSpec>(&layer.spec)) {
      collect_paths(residual->layers, path + ".layers", paths);
      collect_paths(residual->shortcut, path + ".shortcut", paths);
    } else if (const auto* sequential = std::get_if<SequentialSpec>(&layer.spec)) {
      collect_paths(sequential->layers, path, paths);
    } else if (const auto* repeat = std::get_if<RepeatSpec>(&layer.spec)) {
      for (std::int64_t copy = 0; copy < repeat->times; ++copy)
        collect_paths(repeat->layers, fmt::format("{}.{}", path, copy), paths);
    }
    paths.push_back(path);
  }
}

void check_names(const FeatureConfig& feature) {
  std::vector<std::string> paths;
  collect_paths(feature.network, "", paths);
  for (const std::string& name : feature.layers) {
    if (std::find(paths.begin(), paths.end(), name) != paths.end()) continue;
    throw located_error(feature.layers_location, fmt::format("the network has no layer '{}'", shortened(name)),
                        "the path of one of its layers, such as " + paths.front(), std::string(nearest(name, paths)));
  }
}

void check_images(const TensorType& prediction, const TensorType& targets, const SourceLocation& location) {
  if (prediction.shape.rank() != 4) {
    throw located_error(
        location, fmt::format("a loss on features compares images; the model's output is {}", prediction.to_string()),
        "a model whose output is (batch, height, width, channels)");
  }
  if (prediction.shape != targets.shape) {
    throw located_error(location,
                        fmt::format("the model's output is {} and the targets are {}; a loss on features needs images "
                                    "that are alike",
                                    prediction.shape.to_string(), targets.shape.to_string()),
                        "an output of the targets' shape");
  }
}

/// (x − mean) / std by channel, as an inference norm of constants.
ValueId normalize(GraphBuilder& builder, const FeatureConfig& feature, ValueId images, const std::string& path,
                  const SourceLocation& location) {
  if (feature.mean.empty()) return images;
  const TensorType& type = builder.type(images);
  const std::int64_t channels = type.shape[-1];
  const auto one_each = [&](const std::vector<double>& values) {
    std::vector<float> result(static_cast<std::size_t>(channels), static_cast<float>(values.front()));
    if (values.size() > 1) std::copy(values.begin(), values.end(), result.begin());
    return result;
  };
  for (const std::vector<double>* values : {&feature.mean, &feature.std}) {
    if (values->size() == 1 || static_cast<std::int64_t>(values->size()) == channels) continue;
    throw located_error(feature.mean_location,
                        fmt::format("{} values of 'mean' or 'std' for images of {} channel{}", values->size(), channels,
                                    channels == 1 ? "" : "s"),
                        channels == 1 ? "1 value" : fmt::format("1 or {} values", channels));
  }
  const std::vector<float> mean = one_each(feature.mean), deviation = one_each(feature.std);
  std::vector<float> variance(deviation.size());
  std::transform(deviation.begin(), deviation.end(), variance.begin(), [](float std) { return std * std; });
  if (!std::all_of(variance.begin(), variance.end(), [](float value) { return std::isnormal(value); }))
    throw located_error(feature.mean_location, "a 'std' whose square is no usable number in f32", "1e-18 to 1e18");
  builder.begin_layer(path + ".normalize", "normalize", location, images);
  Op op = batchnorm2d_inference_op(type, {.eps = 0, .affine = false});
  std::vector<ValueId> operands = {images, builder.add_constants("normalize.mean", mean),
                                   builder.add_constants("normalize.var", variance)};
  const ValueId output = builder.apply(std::move(op), std::move(operands))[0];
  builder.end_layer(output);
  return output;
}

}  // namespace

ComparedFeatures build_frozen_network(GraphBuilder& builder, Graph& graph, const LossConfig& loss, std::int32_t index,
                                      const std::string& path) {
  const FeatureConfig& feature = loss.feature;
  check_images(builder.type(graph.prediction), builder.type(graph.targets), loss.location);
  check_names(feature);
  builder.begin_layer(path + ".network", "frozen", loss.location, -1);
  FrozenScope scope{.network = static_cast<std::int32_t>(graph.frozen_networks.size()),
                    .owner = static_cast<LayerId>(graph.layers.size() - 1),
                    .wanted = feature.layers,
                    .prefix = {},
                    .differentiates = false,
                    .outputs = {},
                    .parameters = {}};
  graph.frozen_networks.push_back({.loss = index, .layer = scope.owner});
  graph.layers[static_cast<std::size_t>(scope.owner)].is_frozen = true;
  builder.end_layer(-1);
  const auto build_over = [&](ValueId images, const char* name) {
    scope.prefix = fmt::format("{}.{}", path, name);
    scope.outputs.assign(feature.layers.size(), -1);
    builder.enter_frozen(&scope);
    const ValueId input = normalize(builder, feature, images, scope.prefix, loss.location);
    builder.add_input(scope.prefix + ".input", input);
    build_layers(builder, feature.network, scope.prefix, input);
    builder.enter_frozen(nullptr);
    return scope.outputs;
  };
  ComparedFeatures features;
  features.wanted = build_over(graph.targets, "target");
  scope.differentiates = true;
  features.predicted = build_over(graph.prediction, "prediction");
  return features;
}

std::int64_t numbers_of_sample(const TensorType& batch) { return batch.num_elements() / batch.shape[0]; }

}  // namespace trainer
