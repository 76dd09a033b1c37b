#include "engine/graph/model_inputs.h"

#include <fmt/format.h>

#include "engine/config/diagnostic.h"
#include "engine/ops/mixed_sample.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

TensorType batch_of(const TensorType& sample, std::int64_t batch_size) {
  std::vector<std::int64_t> dims = {batch_size};
  dims.insert(dims.end(), sample.shape.begin(), sample.shape.end());
  return {sample.dtype, Shape(dims)};
}

NormalizePixelsAttributes normalisation(const InputDescription& input) {
  NormalizePixelsAttributes attributes;
  for (std::size_t c = 0; c < input.mean.size(); ++c) {
    attributes.scale.push_back(1 / (255 * input.std[c]));
    attributes.offset.push_back(-input.mean[c] / input.std[c]);
  }
  return attributes;
}

/// Each input as layers take it.
std::vector<ValueId> add_inputs(GraphBuilder& builder, Graph& graph, const DataDescription& data,
                                const SourceLocation& location, bool has_targets) {
  require_internal(!data.inputs.empty(), "a model has an input");
  builder.begin_layer("input", std::string(name_of(data.inputs.front().type.dtype)), location, -1);
  try {
    for (const InputDescription& input : data.inputs) {
      graph.inputs.push_back(builder.add_value(batch_of(input.type, graph.batch_size), input.name, Category::input));
      builder.set_num_indices(graph.inputs.back(), input.num_indices);
    }
    if (has_targets)
      graph.targets = builder.add_value(batch_of(data.target, graph.batch_size), "targets", Category::input);
    const bool mixes = data.mixes_batches && graph.mode == GraphMode::training;
    if (mixes) graph.mixing = builder.add_value(mixed_samples_type(graph.batch_size), "mixing", Category::input);
    std::vector<ValueId> values = graph.inputs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (data.inputs[i].type.dtype != DType::u8) continue;
      Op op = normalize_pixels_op(builder.type(values[i]), normalisation(data.inputs[i]), mixes);
      std::vector<ValueId> inputs = {values[i]};
      if (mixes) inputs.push_back(graph.mixing);
      values[i] = builder.apply(std::move(op), inputs)[0];
    }
    builder.end_layer(values.front());
    return values;
  } catch (const ShapeError& error) {
    throw located_error(location, fmt::format("a batch of {} samples: {}", graph.batch_size, error.what()));
  }
}

}  // namespace

std::vector<ValueId> add_model_inputs(GraphBuilder& builder, Graph& graph, const Experiment& experiment,
                                      const DataDescription& data, bool has_targets) {
  const DataConfig& config = experiment.data;
  std::vector<ValueId> inputs = add_inputs(builder, graph, data, config.location, has_targets);
  builder.add_input("input", inputs.front());
  for (std::size_t i = 1; i < inputs.size(); ++i) builder.add_input(data.inputs[i].name, inputs[i]);
  if (config.document_token) {
    DocumentSpansAttributes documents{.document_token = static_cast<std::int32_t>(*config.document_token)};
    // Where it is what begins documents, each of it is one.
    if (config.pad_token && config.pad_token != config.document_token)
      documents.pad_token = static_cast<std::int32_t>(*config.pad_token);
    builder.set_documents(inputs.front(), documents);
  }
  return inputs;
}

}  // namespace trainer
