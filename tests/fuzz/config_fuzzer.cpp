#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "engine/config/layer_reader.h"
#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "engine/graph/graph.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

namespace {

/// A graph of more layers takes its time.
constexpr std::int64_t most_fuzzed_layers = 100;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

}  // namespace

/// A configuration; what follows a line "%%" are overrides, one a line.
void read_fuzzed_config(std::string_view input) {
  const std::string_view separator = "\n%%\n";
  const std::size_t end = input.find(separator);
  std::vector<std::string> overrides;
  if (end != std::string_view::npos) overrides = lines_of(input.substr(end + separator.size()));
  const Experiment experiment = parse_experiment(input.substr(0, end), "fuzzed.yaml", overrides);
  const std::string resolved = resolved_yaml(experiment);
  require_internal(resolved_yaml(parse_experiment(resolved, "resolved.yaml")) == resolved,
                   "a resolved configuration resolves to itself");
  if (experiment.data.type != DataType::synthetic || num_expanded_layers(experiment.layers) > most_fuzzed_layers)
    return;
  const DataDescription data = describe_data(experiment.data, experiment.seed);
  build_graph(experiment, data, 2, GraphMode::training);
  build_graph(experiment, data, 2, GraphMode::evaluation);
}

}  // namespace trainer
