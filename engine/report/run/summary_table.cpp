#include "engine/report/run/summary_table.h"
#include "engine/report/memory/memory_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/program/routine_walk.h"
#include "engine/report/run/layer_group_summary.h"
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

/// Of a layer's own weights, whether they are trained.
enum class Training : std::uint8_t { has_none, frozen, trained };

/// By layer; what a frozen network has is frozen.
std::vector<Training> training_of(const Program& program) {
  std::vector<Training> all(program.layers.size(), Training::has_none);
  for (const Parameter& parameter : program.parameters)
    if (parameter.layer >= 0 && (parameter.is_weight || parameter.is_frozen()))
      all[static_cast<std::size_t>(parameter.layer)] = parameter.trainable ? Training::trained : Training::frozen;
  return all;
}

const char* text_of(Training training) {
  return training == Training::has_none ? "" : training == Training::frozen ? "frozen" : "trained";
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

/// Rates of what is not trained are left out.
std::string group_table(const Program& program, const Experiment& experiment, const Style& style) {
  TextTable table({{"layer group", Align::left},
                   {"layers with parameters"},
                   {"parameters"},
                   {"trained"},
                   {"learning rate"},
                   {"weight decay"}});
  for (const LayerGroupSummary& group : summarize_layer_groups(program, experiment)) {
    const auto rate = [&](double number) { return group.num_trained == 0 ? "" : fmt::format("{:.4g}", number); };
    table.add_row({group.name, format_count(group.num_layers), format_count(group.num_parameters),
                   format_count(group.num_trained), rate(group.learning_rate), rate(group.weight_decay)});
  }
  return table.render(style, 0);
}

nlohmann::ordered_json group_list(const Program& program, const Experiment& experiment) {
  auto list = nlohmann::ordered_json::array();
  for (const LayerGroupSummary& group : summarize_layer_groups(program, experiment)) {
    nlohmann::ordered_json entry = {{"group", group.name},
                                    {"layers", group.num_layers},
                                    {"parameters", group.num_parameters},
                                    {"trained_parameters", group.num_trained}};
    if (group.num_trained > 0) {
      entry["learning_rate"] = group.learning_rate;
      entry["weight_decay"] = group.weight_decay;
    }
    list.push_back(std::move(entry));
  }
  return list;
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

std::string summary_table(const Program& program, const Experiment& experiment, const Style& style) {
  const bool freezes = num_trained_parameters(program) < num_parameters(program);
  std::vector<TextTable::Column> columns = {
      {"layer", Align::left}, {"kind", Align::left}, {"output", Align::left}, {"parameters"}};
  if (freezes) columns.push_back({"weights", Align::left});
  columns.insert(columns.end(), {{"their bytes"}, {"FLOPs", Align::right, Narrow::is_left_out}, {"activations"}});
  TextTable table(std::move(columns));
  const std::vector<LayerFigures> figures = figures_of(program);
  const std::vector<Training> training = training_of(program);
  const auto add = [&](std::string path, std::string kind, std::string output, std::string num_parameters,
                       Training trains, const LayerFigures& layer) {
    std::vector<std::string> row = {std::move(path), std::move(kind), std::move(output), std::move(num_parameters)};
    if (freezes) row.emplace_back(text_of(trains));
    row.push_back(format_bytes(layer.parameter_bytes));
    row.push_back(format_flops(layer.flops));
    row.push_back(format_bytes(layer.activation_bytes));
    table.add_row(std::move(row));
  };
  const auto add_layers = [&](bool frozen) {
    for (std::size_t i = 0; i < program.layers.size(); ++i) {
      const Layer& layer = program.layers[i];
      if (layer.is_frozen != frozen) continue;
      add(layer.path, layer.kind, layer.kind == "frozen" ? "" : layer.output.shape.to_string(),
          layer.shares.empty() ? format_count(figures[i].num_parameters) : "of " + layer.shares, training[i],
          figures[i]);
    }
  };
  add_layers(false);
  table.add_rule();
  add("total", "", "", format_count(figures.back().num_parameters), Training::has_none, figures.back());
  if (!program.frozen_networks.empty()) {
    table.add_rule();
    add_layers(true);
  }
  std::string text = table.render(style, 0);
  if (freezes)
    text += fmt::format("\n{} of {} parameters are trained.\n", format_count(num_trained_parameters(program)),
                        format_count(num_parameters(program)));
  if (!experiment.groups.empty()) text += '\n' + group_table(program, experiment, style);
  return text;
}

std::string summary_json(const Program& program, const Experiment& experiment) {
  const std::vector<LayerFigures> figures = figures_of(program);
  const auto add_figures = [](nlohmann::ordered_json& json, const LayerFigures& layer) {
    json["parameters"] = layer.num_parameters;
    json["flops"] = layer.flops;
    json["parameter_bytes"] = layer.parameter_bytes;
    json["activation_bytes"] = layer.activation_bytes;
  };
  const std::vector<Training> training = training_of(program);
  nlohmann::ordered_json json = {{"event", "summary"}, {"schema", event_schema_version}};
  if (!experiment.stage.empty()) json["stage"] = experiment.stage;
  if (!experiment.stages.empty()) {
    json["without_stages"] = nlohmann::ordered_json::array();
    for (const StageConfig& stage : experiment.stages) json["without_stages"].push_back(stage.name);
  }
  auto layers = nlohmann::ordered_json::array(), frozen = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    const Layer& layer = program.layers[i];
    nlohmann::ordered_json entry = {{"layer", layer.path}, {"kind", layer.kind}};
    entry["output"] = std::vector<std::int64_t>(layer.output.shape.begin(), layer.output.shape.end());
    if (!layer.shares.empty()) entry["shares"] = layer.shares;
    add_figures(entry, figures[i]);
    if (training[i] != Training::has_none) entry["trained"] = training[i] == Training::trained;
    (layer.is_frozen ? frozen : layers).push_back(std::move(entry));
  }
  add_figures(json, figures.back());
  json["trained_parameters"] = num_trained_parameters(program);
  json["layers"] = std::move(layers);
  if (!frozen.empty()) json["frozen"] = std::move(frozen);
  if (!experiment.groups.empty()) json["groups"] = group_list(program, experiment);
  return json_text(json);
}

}  // namespace trainer
