#include "engine/report/run/summary_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/program/routine_walk.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

/// "1.23 G": FLOPs with a decimal prefix, as hardware is rated.
std::string format_flops(std::int64_t flops) {
  constexpr std::array<const char*, 6> prefixes = {"", " k", " M", " G", " T", " P"};
  auto value = static_cast<double>(flops);
  std::size_t prefix = 0;
  while (value >= 999.995 && prefix + 1 < prefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return prefix == 0 ? fmt::format("{}", flops) : fmt::format("{:.2f}{}", value, prefixes[prefix]);
}

struct LayerFigures {
  std::int64_t num_parameters = 0, flops = 0, parameter_bytes = 0, activation_bytes = 0;
};

/// What numbers a frozen network holds, where it is not a layer of the model.
std::int64_t num_frozen_numbers(const Program& program, LayerId layer) {
  std::int64_t count = 0;
  for (const Parameter& parameter : program.parameters)
    if (parameter.is_frozen() && parameter.layer == layer) count += parameter.type.num_elements();
  return count;
}

/// One entry a layer, and the sum of the model's as the last.
std::vector<LayerFigures> figures_of(const Program& program) {
  std::vector<LayerFigures> figures(program.layers.size() + 1);
  const std::vector<std::int64_t> activation_bytes = activation_bytes_by_layer(program);
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    figures[i].num_parameters = program.layers[i].num_parameters;
    figures[i].flops = program.layers[i].forward_flops;
    figures[i].activation_bytes = activation_bytes[i];
  }
  for (const Parameter& parameter : program.parameters)
    if (parameter.layer >= 0)
      figures[static_cast<std::size_t>(parameter.layer)].parameter_bytes += parameter.type.num_bytes();
  LayerFigures& sum = figures.back();
  for (std::size_t i = 0; i + 1 < figures.size(); ++i) {
    if (program.layers[i].is_frozen) {
      figures[i].num_parameters = num_frozen_numbers(program, static_cast<LayerId>(i));
      continue;
    }
    sum.num_parameters += figures[i].num_parameters;
    sum.flops += figures[i].flops;
    sum.parameter_bytes += figures[i].parameter_bytes;
    sum.activation_bytes += figures[i].activation_bytes;
  }
  return figures;
}

}  // namespace

std::vector<std::int64_t> activation_bytes_by_layer(const Program& program) {
  std::vector<std::int64_t> bytes(program.layers.size(), 0);
  if (program.micro_batches.empty()) return bytes;
  for_each_change(program.micro_batches.front().first, [&](BufferId id, bool is_allocated) {
    const Buffer& buffer = program.buffers[static_cast<std::size_t>(id)];
    if (is_allocated && buffer.category == Category::activation && buffer.layer >= 0)
      bytes[static_cast<std::size_t>(buffer.layer)] += buffer.num_bytes;
  });
  return bytes;
}

std::string summary_table(const Program& program, const Style& style) {
  TextTable table({{"layer", Align::left},
                   {"kind", Align::left},
                   {"output", Align::left},
                   {"parameters"},
                   {"their bytes"},
                   {"FLOPs", Align::right, Narrow::is_left_out},
                   {"activations"}});
  const std::vector<LayerFigures> figures = figures_of(program);
  const auto add = [&](std::string path, std::string kind, std::string output, std::string num_parameters,
                       const LayerFigures& layer) {
    table.add_row({std::move(path), std::move(kind), std::move(output), std::move(num_parameters),
                   format_bytes(layer.parameter_bytes), format_flops(layer.flops),
                   format_bytes(layer.activation_bytes)});
  };
  const auto add_layers = [&](bool frozen) {
    for (std::size_t i = 0; i < program.layers.size(); ++i) {
      const Layer& layer = program.layers[i];
      if (layer.is_frozen != frozen) continue;
      add(layer.path, layer.kind, layer.kind == "frozen" ? "" : layer.output.shape.to_string(),
          layer.shares.empty() ? format_count(figures[i].num_parameters) : "of " + layer.shares, figures[i]);
    }
  };
  add_layers(false);
  table.add_rule();
  add("total", "", "", format_count(figures.back().num_parameters), figures.back());
  if (!program.frozen_networks.empty()) {
    table.add_rule();
    add_layers(true);
  }
  return table.render(style, 0);
}

std::string summary_json(const Program& program) {
  const std::vector<LayerFigures> figures = figures_of(program);
  const auto add_figures = [](nlohmann::ordered_json& json, const LayerFigures& layer) {
    json["parameters"] = layer.num_parameters;
    json["flops"] = layer.flops;
    json["parameter_bytes"] = layer.parameter_bytes;
    json["activation_bytes"] = layer.activation_bytes;
  };
  nlohmann::ordered_json json = {{"event", "summary"}};
  auto layers = nlohmann::ordered_json::array(), frozen = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    const Layer& layer = program.layers[i];
    nlohmann::ordered_json entry = {{"layer", layer.path}, {"kind", layer.kind}};
    entry["output"] = std::vector<std::int64_t>(layer.output.shape.begin(), layer.output.shape.end());
    if (!layer.shares.empty()) entry["shares"] = layer.shares;
    add_figures(entry, figures[i]);
    (layer.is_frozen ? frozen : layers).push_back(std::move(entry));
  }
  add_figures(json, figures.back());
  json["layers"] = std::move(layers);
  if (!frozen.empty()) json["frozen"] = std::move(frozen);
  return json_text(json);
}

}  // namespace trainer
