#include "engine/config/fields/model_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "engine/config/fields/layer_fields.h"

namespace trainer {
namespace {

void collect_numbers(std::vector<LayerSpec>& layers, const std::string& key, std::vector<ModelNumber>& numbers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerSpec& layer = layers[i];
    for (const Field<LayerSpec>& field : find_layer_kind(layer.kind)->fields) {
      if (!field.size_of && !field.layers) continue;
      const std::string place = layer.name.empty() ? fmt::format("{}", i) : layer.name;
      const std::string here = fmt::format("{}.{}.{}.{}", key, place, layer.kind, field.key);
      if (field.size_of) numbers.push_back({here, &field.integer(layer), *field.size_of == SizeOf::width});
      if (field.layers) collect_numbers(field.layers(layer), here, numbers);
    }
  }
}

/// Whether one of the layers is such, or of those in them.
template <typename Predicate>
bool has_layer(const std::vector<LayerSpec>& layers, Predicate is_such) {
  return std::any_of(layers.begin(), layers.end(), [&](const LayerSpec& layer) {
    const std::vector<Field<LayerSpec>>& fields = find_layer_kind(layer.kind)->fields;
    return is_such(layer) || std::any_of(fields.begin(), fields.end(), [&](const Field<LayerSpec>& field) {
             return field.const_layers && has_layer(field.const_layers(layer), is_such);
           });
  });
}

}  // namespace

std::vector<ModelNumber> numbers_of_model(std::vector<LayerSpec>& layers) {
  std::vector<ModelNumber> numbers;
  collect_numbers(layers, "model.layers", numbers);
  return numbers;
}

bool depends_on_batch(const std::vector<LayerSpec>& layers) {
  return has_layer(layers, [](const LayerSpec& layer) {
    const LayerKind& kind = *find_layer_kind(layer.kind);
    return kind.depends_on_batch != nullptr && kind.depends_on_batch(layer.spec);
  });
}

bool depends_on_batch(const Experiment& experiment) {
  return depends_on_batch(experiment.layers) || !experiment.data.batch_transforms.empty();
}

bool has_batch_norm(const std::vector<LayerSpec>& layers) {
  return has_layer(layers, [](const LayerSpec& layer) { return std::holds_alternative<BatchNormSpec>(layer.spec); });
}

bool depends_on_ranks(const Experiment& experiment) {
  const bool norms_see_parts = !experiment.parallel.sync_batchnorm && has_batch_norm(experiment.layers);
  return norms_see_parts || !experiment.data.batch_transforms.empty();
}

}  // namespace trainer
