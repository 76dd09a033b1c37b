#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/commands/onnx_export.h"
#include "cli/commands/output_file.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "datasets/prediction/input_description.h"
#include "engine/bytes.h"
#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/config/text/json_output.h"
#include "engine/graph/generation_graph.h"
#include "engine/graph/graph.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/exported_model.h"
#include "engine/train/files/exported_names.h"
#include "engine/train/files/exported_weights.h"
#include "engine/train/files/initial_weights.h"
#include "engine/train/files/intact_weights.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

struct ExportArguments {
  ExperimentArguments experiment;
  std::string weights, names, output, folder, type, onnx;
  bool half = false, overwrite = false, json = false, quiet = false;
};

/// A model's tensors in a file, and the maps that it has.
struct ModelToExport {
  bool is_of_run = false;
  WeightFiles files;
  WeightsMatch match;
  std::vector<NameMap> maps;
  std::string config;           ///< of a run or a checkpoint, resolved
  Preprocessing preprocessing;  ///< likewise
};

/// Of the folder of a run or a checkpoint, whose configuration and sums are in the checkpoint.
ModelToExport model_of_run(const ExportArguments& arguments) {
  const std::string& folder = arguments.experiment.config_path;
  if (!arguments.weights.empty() || !arguments.experiment.overrides.empty())
    throw ConfigError(
        fmt::format("{} is exported as it is; --weights and key=value go with a configuration in its place", folder));
  const std::string file = initial_weights_file(folder);
  const Checkpoint checkpoint = read_model_of_checkpoint(std::filesystem::path(file).parent_path());
  WeightFiles files(file);
  WeightsMatch match = match_of_own(files);
  return {true,
          std::move(files),
          std::move(match),
          maps_of_resolved(checkpoint.given_config()),
          checkpoint.given_config(),
          checkpoint.state.preprocessing};
}

/// A model that writes texts tells its parameters without the data that it learns from.
Graph graph_of(const Experiment& experiment) {
  const bool reads_tokens = experiment.data.type == DataType::tokens || experiment.data.type == DataType::text;
  if (reads_tokens) {
    try {
      return build_generation_graph(experiment, 1);
    } catch (const ConfigError&) {  // one that writes none
    }
  }
  return build_graph(experiment, describe_data(experiment.data, experiment.seed), 1, GraphMode::evaluation);
}

/// Of a file that a configuration says how to load.
ModelToExport model_of_configuration(const ExportArguments& arguments) {
  Experiment experiment = last_trained(arguments.experiment.load());
  if (!arguments.weights.empty()) experiment.weights.file = arguments.weights;
  if (experiment.weights.file.empty())
    throw ConfigError(fmt::format(
        "{} names no weights to export: give a run's folder in its place, or --weights with a safetensors file, or the "
        "folder of a checkpoint or a run",
        arguments.experiment.config_path));
  WeightFiles files = intact_weights(experiment.weights.file);
  WeightsMatch match = match_weights(experiment.weights, files, graph_of(experiment));
  require_match(match);
  if (match.count(WeightsStatus::fresh) > 0)
    throw ConfigError("weights.new leaves parameters without a value to export: a file has all of them");
  return {false, std::move(files), std::move(match), experiment.maps, {}, {}};
}

std::optional<DType> type_of(const std::string& name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    if (name_of(type) == name) return type;
  return std::nullopt;
}

std::vector<std::string> weights_read(const ModelToExport& model) {
  std::vector<std::string> paths = model.match.files;
  paths.push_back(model.match.path);
  return paths;
}

const NameMap* map_named(const ExportArguments& arguments, const ModelToExport& model) {
  if (arguments.names.empty()) return nullptr;
  if (!model.maps.empty() || !model.is_of_run) return &find_map(model.maps, arguments.names);
  throw ConfigError(fmt::format(
      "the configuration that {0} was trained by has no map '{1}' (model.maps); by one that has: '{2}'",
      arguments.experiment.config_path, arguments.names,
      trainer_command(fmt::format("export CONFIG --weights {} --names {} -o FILE",
                                  shell_words({arguments.experiment.config_path}), shell_words({arguments.names})))));
}

/// Of a configuration whose data is read for it, but for texts, which are as they are.
Preprocessing preprocessing_of(const Experiment& experiment) {
  const DataType type = experiment.data.type;
  if (type == DataType::tokens || type == DataType::text || type == DataType::synthetic) return {};
  return load_data(experiment.data, experiment.seed).preprocessing;
}

ExportedWeights write_folder(const ExportArguments& arguments, const ModelToExport& model) {
  const Experiment experiment = model.is_of_run ? parse_experiment(model.config, arguments.experiment.config_path)
                                                : last_trained(arguments.experiment.load());
  const Preprocessing preprocessing = model.is_of_run ? model.preprocessing : preprocessing_of(experiment);
  return write_exported_model({.match = model.match,
                               .files = model.files,
                               .type = type_of(arguments.type),
                               .experiment = experiment,
                               .data = describe_inputs(experiment.data, experiment.seed, preprocessing),
                               .preprocessing = preprocessing,
                               .tokenizer_files = tokenizer_files_of(experiment.data),
                               .trainer_version = TRAINER_VERSION},
                              arguments.folder);
}

ExitCode export_model(const ExportArguments& arguments) {
  if (!arguments.onnx.empty())
    return export_onnx({arguments.experiment, arguments.weights, arguments.onnx, arguments.overwrite, arguments.json,
                        arguments.quiet});
  const bool is_folder = !arguments.folder.empty();
  if (is_folder) check_export_place(arguments.folder, arguments.overwrite);
  refuse_existing(arguments.output, arguments.overwrite);
  std::error_code ignored;
  const ModelToExport model = std::filesystem::is_directory(arguments.experiment.config_path, ignored)
                                  ? model_of_run(arguments)
                                  : model_of_configuration(arguments);
  refuse_own_input(arguments.output, weights_read(model));
  const NameMap* const map = map_named(arguments, model);
  const std::string& output = is_folder ? arguments.folder : arguments.output;
  const ExportedWeights written =
      is_folder ? write_folder(arguments, model)
                : export_weights(model.match, model.files, map, type_of(arguments.type), arguments.output);
  std::vector<std::string> types;
  for (const DType type : written.types) types.emplace_back(name_of(type));
  if (arguments.json) {
    write_exactly(stdout, json_text({{"event", "export"},
                                     {"schema", event_schema_version},
                                     {"weights", model.match.path},
                                     {"output", output},
                                     {"names", arguments.names.empty() ? nlohmann::ordered_json(nullptr)
                                                                       : nlohmann::ordered_json(arguments.names)},
                                     {"tensors", written.num_tensors},
                                     {"numbers", written.num_numbers},
                                     {"dtypes", types},
                                     {"bytes", written.num_bytes}}) +
                              '\n');
    return ExitCode::done;
  }
  if (arguments.quiet) return ExitCode::done;
  const Style style = style_for(stdout);
  const std::string text =
      fmt::format("{} of {}: {}, {} in {}, {}, {}", format_bytes(written.num_bytes),
                  is_folder ? "weights in " + output : output, format_number_of(written.num_tensors, "tensor"),
                  format_number_of(written.num_numbers, "number"), fmt::join(types, " and "),
                  arguments.names.empty() ? "by the model's names" : "by the map '" + arguments.names + "'",
                  fmt::format("from {}", model.match.path));
  write_text(stdout, wrap(text, static_cast<std::size_t>(style.width)) + '\n');
  return ExitCode::done;
}

}  // namespace

void add_export_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export", "Write a model as safetensors or ONNX for other programs");
  arguments->experiment.add_run_to(*command);
  CLI::Option* output = command->add_option("-o,--output", arguments->output, "The file of weights to write");
  output->type_name("FILE");
  CLI::Option* folder = command->add_option("--to", arguments->folder, "Or the folder to write, for 'predict'");
  folder->type_name("DIR")->excludes(output);
  CLI::Option* onnx = command->add_option("--onnx", arguments->onnx, "Or the ONNX file to write");
  onnx->type_name("FILE")->excludes(output)->excludes(folder);
  command->add_option("--names", arguments->names, "Names and axes by a map of the model, such as hub")
      ->type_name("MAP");
  CLI::Option* dtype = command->add_option("--dtype", arguments->type, "Round all numbers to f32, f16 or bf16")
                           ->type_name("TYPE")
                           ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  command->add_flag("--half", arguments->half, "The same as --dtype f16")->excludes(dtype);
  command
      ->add_option("--weights", arguments->weights,
                   "With a configuration: weights.file; a file, or the folder of a checkpoint or a run")
      ->type_name("PATH");
  command->add_flag("--overwrite", arguments->overwrite, "Replace the file, or a folder that export wrote");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print mistakes only");
  command->footer(
      "Tied parameters are written once, as those who load them expect, and\nnothing is split into shards.\n\n" +
      examples({"export runs/shakespeare-gpt --names hub -o model.safetensors",
                "export runs/quickstart --to exported --half", "export runs/quickstart --onnx quickstart.onnx"}));
  command->callback([arguments, output, folder, onnx, &action] {
    if (output->count() + folder->count() + onnx->count() == 0)
      throw CLI::ValidationError("-o FILE, --to DIR or --onnx FILE says what is to be written");
    if (folder->count() > 0 && !arguments->names.empty())
      throw CLI::ValidationError("--names writes names that 'predict' does not know; it goes with -o");
    if (onnx->count() > 0 && (arguments->half || !arguments->names.empty() || !arguments->type.empty()))
      throw CLI::ValidationError(
          "--onnx writes the model's own names in f32; --names, --half and --dtype go without it");
    if (arguments->half) arguments->type = "f16";
    action = [arguments] { return export_model(*arguments); };
  });
}

}  // namespace trainer
