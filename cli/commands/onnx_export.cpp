#include "cli/commands/onnx_export.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands/output_file.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/bytes.h"
#include "engine/config/load_experiment.h"
#include "engine/config/text/json_output.h"
#include "engine/graph/graph.h"
#include "engine/report/memory/memory_json.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/initial_weights.h"
#include "engine/train/files/intact_weights.h"
#include "engine/train/onnx/onnx_file.h"
#include "engine/train/onnx/onnx_translation.h"

namespace trainer {
namespace {

Experiment experiment_to_export(const OnnxExportArguments& arguments) {
  const std::string& path = arguments.experiment.config_path;
  std::error_code ignored;
  Experiment experiment;
  if (std::filesystem::is_directory(path, ignored)) {
    if (!arguments.weights.empty())
      throw ConfigError(fmt::format("{} is exported as it is; --weights goes with a configuration in its place", path));
    // Of a run's folder the best checkpoint, which has the configuration too.
    const std::string file = initial_weights_file(path);
    const Checkpoint checkpoint = read_model_of_checkpoint(std::filesystem::path(file).parent_path());
    experiment = parse_experiment(checkpoint.given_config(), path, arguments.experiment.overrides);
    experiment.weights = {};
    experiment.weights.file = file;
  } else {
    experiment = arguments.experiment.load();
    if (!arguments.weights.empty()) experiment.weights.file = arguments.weights;
  }
  if (experiment.weights.file.empty())
    throw ConfigError(fmt::format(
        "{} names no weights to export: give a run's folder in its place, or --weights with a safetensors file, or the "
        "folder of a checkpoint or a run",
        path));
  return experiment;
}

}  // namespace

ExitCode export_onnx(const OnnxExportArguments& arguments) {
  refuse_existing(arguments.output, arguments.overwrite);
  refuse_existing(arguments.output + ".data", arguments.overwrite);  // of a large model
  const Experiment experiment = experiment_to_export(arguments);
  const DataDescription data = describe_data(experiment.data, experiment.seed);
  // At any size of the batch, which is a symbol in what is written.
  const Graph graph = build_graph(experiment, data, 2, GraphMode::evaluation);
  const OnnxGraph onnx = onnx_of(graph, data);
  const WeightFiles files = intact_weights(experiment.weights.file);
  const WeightsMatch match = match_weights(experiment.weights, files, graph);
  require_match(match);
  if (match.count(WeightsStatus::fresh) > 0)
    throw ConfigError("weights.new leaves parameters without a value to export: a file has all of them");
  std::vector<std::string> read = match.files;
  read.push_back(match.path);
  refuse_own_input(arguments.output, read);
  const OnnxFile written = write_onnx(onnx, experiment.name, TRAINER_VERSION, match, files, arguments.output);
  if (arguments.json) {
    write_exactly(stdout, json_text({{"event", "export"},
                                     {"schema", event_schema_version},
                                     {"weights", match.path},
                                     {"output", arguments.output},
                                     {"format", "onnx"},
                                     {"opset", onnx_opset},
                                     {"numbers", written.num_parameters},
                                     {"bytes", written.num_bytes},
                                     {"data", written.data_path.empty() ? nlohmann::ordered_json(nullptr)
                                                                        : nlohmann::ordered_json(written.data_path)},
                                     {"data_bytes", written.data_bytes}}) +
                              '\n');
    return ExitCode::done;
  }
  if (arguments.quiet) return ExitCode::done;
  const Style style = style_for(stdout);
  std::string text = fmt::format("{} of {}: ONNX, opset {}, {} parameters from {}", format_bytes(written.num_bytes),
                                 arguments.output, onnx_opset, format_count(written.num_parameters), match.path);
  if (!written.data_path.empty())
    text += fmt::format("; their numbers are in {}, {}, which stays beside it", written.data_path,
                        format_bytes(written.data_bytes));
  write_text(stdout, wrap(text, static_cast<std::size_t>(style.width)) + '\n');
  return ExitCode::done;
}

}  // namespace trainer
