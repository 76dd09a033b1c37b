#include "engine/plan/search/model_numbers.h"

#include <fmt/format.h>

namespace trainer {
namespace {

/// Calls `visit` for every layer, those inside composites too.
template <typename Visit>
void for_each_layer(const std::vector<LayerSpec>& layers, Visit&& visit) {
  for (const LayerSpec& layer : layers) {
    visit(layer);
    if (const auto* residual = std::get_if<ResidualSpec>(&layer.spec)) {
      for_each_layer(residual->layers, visit);
      for_each_layer(residual->shortcut, visit);
    }
    if (const auto* sequential = std::get_if<SequentialSpec>(&layer.spec)) for_each_layer(sequential->layers, visit);
    if (const auto* repeat = std::get_if<RepeatSpec>(&layer.spec)) for_each_layer(repeat->layers, visit);
  }
}

void collect_numbers(std::vector<LayerSpec>& layers, const std::string& key, std::vector<ModelNumber>& numbers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerSpec& layer = layers[i];
    const std::string here = fmt::format("{}.{}.{}", key, i, layer.kind);
    if (auto* linear = std::get_if<LinearSpec>(&layer.spec)) numbers.push_back({here + ".out", &linear->out, true});
    if (auto* conv2d = std::get_if<Conv2dSpec>(&layer.spec)) numbers.push_back({here + ".out", &conv2d->out, true});
    if (auto* sequential = std::get_if<SequentialSpec>(&layer.spec))
      collect_numbers(sequential->layers, here + ".layers", numbers);
    if (auto* residual = std::get_if<ResidualSpec>(&layer.spec)) {
      collect_numbers(residual->layers, here + ".layers", numbers);
      collect_numbers(residual->shortcut, here + ".shortcut", numbers);
    }
    if (auto* repeat = std::get_if<RepeatSpec>(&layer.spec)) {
      numbers.push_back({here + ".times", &repeat->times, false});
      collect_numbers(repeat->layers, here + ".layers", numbers);
    }
  }
}

}  // namespace

std::vector<ModelNumber> numbers_of_model(std::vector<LayerSpec>& layers) {
  std::vector<ModelNumber> numbers;
  collect_numbers(layers, "model.layers", numbers);
  return numbers;
}

bool depends_on_batch(const std::vector<LayerSpec>& layers) {
  bool depends = false;
  for_each_layer(layers, [&](const LayerSpec& layer) {
    const auto* dropout = std::get_if<DropoutSpec>(&layer.spec);
    depends = depends || std::holds_alternative<BatchNorm2dSpec>(layer.spec) || (dropout != nullptr && dropout->p > 0);
  });
  return depends;
}

}  // namespace trainer
