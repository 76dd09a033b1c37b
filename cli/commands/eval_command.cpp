#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/bounded_spin.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/commands/output_file.h"
#include "cli/device_factory.h"
#include "cli/interrupt_signals.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/config/load_experiment.h"
#include "engine/config/override_text.h"
#include "engine/config/stages.h"
#include "engine/findings/find_evaluation.h"
#include "engine/report/memory/out_of_memory_report.h"
#include "engine/report/run/evaluation_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/initial_weights.h"
#include "engine/train/files/intact_weights.h"
#include "engine/train/files/replaced_file.h"
#include "engine/train/files/run_directory.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

struct EvalArguments {
  ExperimentArguments experiment;
  std::string weights, data, confusion;
  std::int64_t num_worst = 10;
  bool overwrite = false, json = false, quiet = false;
};

/// Shows on a terminal, from the first second on, how far an evaluation is.
class EvaluationProgress {
 public:
  explicit EvaluationProgress(bool shows) : shows_(shows && can_redraw(stderr)) {}
  ~EvaluationProgress() {
    if (is_drawn_) write_exactly(stderr, erased_line);
  }
  EvaluationProgress(const EvaluationProgress&) = delete;
  EvaluationProgress& operator=(const EvaluationProgress&) = delete;

  void show(std::int64_t num_samples, std::int64_t num_all) {
    const Clock::time_point now = Clock::now();
    if (!shows_ || now - begin_ < std::chrono::seconds(1) || now - last_draw_ < std::chrono::milliseconds(100)) return;
    last_draw_ = now;
    if (is_drawn_) write_exactly(stderr, erased_line);
    is_drawn_ = write_text(stderr, fmt::format("{} of {} samples", format_count(num_samples), format_count(num_all)));
    std::fflush(stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;

  const bool shows_;
  bool is_drawn_ = false;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_draw_ = begin_;
};

bool is_run_or_checkpoint(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// The configuration that a folder's weights were trained by, with overrides; those of a run's folder are in its file.
Experiment experiment_of(const EvalArguments& arguments, const std::vector<std::string>& overrides) {
  ExperimentArguments given = arguments.experiment;
  given.overrides = overrides;
  if (!is_run_or_checkpoint(given.config_path)) return given.load_one();
  if (!given.stage.empty())
    throw ConfigError("--stage is of a configuration: a checkpoint is of the stage that it was made in");
  const std::string folder = given.config_path;
  Experiment experiment;
  if (holds_weights(folder)) {
    const Checkpoint checkpoint = read_model_of_checkpoint(folder);
    experiment = parse_experiment(checkpoint.given_config(), folder, overrides);
  } else if (RunDirectory(folder).holds_run()) {
    given.config_path = fmt::format("{}/{}", folder, config_file);
    experiment = given.load();
    if (!experiment.stages.empty()) {  // of them that which its best weights are of
      const Checkpoint best = read_model_of_checkpoint(fs::path(initial_weights_file(folder)).parent_path());
      experiment = parse_experiment(best.given_config(), folder, overrides);
    }
  } else {
    throw DataError(
        fmt::format("{} is neither the folder of a run nor that of a checkpoint: it has no {} and no {}; "
                    "give one of them, or a configuration with --weights",
                    folder, config_file, model_file));
  }
  experiment.weights = {};  // what it began with is not what it learned
  experiment.weights.file = folder;
  return experiment;
}

/// What makes PATH the data that is evaluated on: the file or folder that validation reads, or data.root.
std::vector<std::string> overrides_of_data(const DataConfig& data, const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw DataError(fmt::format("--data '{}' does not exist", path));
  if (data.type == DataType::digits || data.type == DataType::synthetic)
    throw ConfigError("--data takes the place of files, and this configuration's data reads none");
  const bool is_folder = fs::is_directory(path, ignored);
  const bool has_class_folders =
      data.type == DataType::image_folder && (!data.train.empty() || !fs::is_directory(path + "/train", ignored));
  Experiment named;
  const std::string place = fs::absolute(path).lexically_normal().string();
  if (is_folder && !has_class_folders) {
    named.data.root = place;
    return {override_of("data.root", named)};
  }
  if (!is_folder && (data.type == DataType::idx || data.type == DataType::cifar10 ||
                     data.type == DataType::segmentation || data.type == DataType::image_folder))
    throw ConfigError(fmt::format("--data '{}' is a file, and this configuration's data is a folder", path));
  named.data.validation = place;
  return {override_of("data.validation", named), "data.split=0", "data.validation_samples=0"};
}

Experiment load_for_evaluation(const EvalArguments& arguments) {
  std::vector<std::string> overrides = arguments.experiment.overrides;
  if (!arguments.weights.empty() && !is_run_or_checkpoint(arguments.experiment.config_path)) {
    // Beside keys of the configuration that say how such a file is loaded.
    Experiment named;
    named.weights.file = arguments.weights;
    overrides = merged_overrides(overrides, {override_of("weights.file", named)});
  }
  if (!arguments.data.empty())
    overrides =
        merged_overrides(overrides, overrides_of_data(experiment_of(arguments, overrides).data, arguments.data));
  Experiment experiment = experiment_of(arguments, overrides);
  if (!arguments.weights.empty()) experiment.weights.file = arguments.weights;
  leave_ranks(experiment, /*keeps_parts=*/true);
  if (experiment.weights.file.empty())
    throw ConfigError(fmt::format(
        "{} names no weights to evaluate: give a run's folder in its place, or --weights with a safetensors file, or "
        "the folder of a checkpoint or a run",
        arguments.experiment.config_path));
  return experiment;
}

std::vector<std::string> options_of(const EvalArguments& arguments) {
  std::vector<std::string> options;
  if (!arguments.weights.empty()) options.insert(options.end(), {"--weights", arguments.weights});
  if (!arguments.data.empty()) options.insert(options.end(), {"--data", arguments.data});
  return options;
}

ExitCode evaluate(const EvalArguments& arguments) {
  bound_spinning();
  refuse_existing(arguments.confusion, arguments.overwrite);
  const Experiment experiment = load_for_evaluation(arguments);
  const WeightFiles files = intact_weights(experiment.weights.file);
  const std::unique_ptr<Device> device = make_device(experiment);
  const LoadedData data = load_data(experiment.data, experiment.seed);
  Interruption interruption;
  EvaluationFindings findings;
  try {
    const InterruptSignals signals(interruption, "\nEnding the evaluation; once more to stop at once.\n");
    EvaluationProgress progress(!arguments.json && !arguments.quiet);
    findings =
        find_evaluation({experiment, arguments.experiment.config_path, arguments.experiment.overrides,
                         options_of(arguments), arguments.num_worst,
                         [&](std::int64_t num_samples, std::int64_t num_all) { progress.show(num_samples, num_all); }},
                        files, data, *device, interruption);
  } catch (const ProgramOutOfMemory& error) {
    write_text(stderr, fmt::format("{}\nThe evaluation fits what the device had free before it, and does not now: see "
                                   "what else holds its memory ('{}').\n",
                                   out_of_memory_message(error.failure(), device->kind()), trainer_command("doctor")));
    return ExitCode::out_of_memory;
  }
  if (!findings.fits()) {
    write_text(stderr, evaluation_out_of_memory(findings, style_for(stderr)));
    return ExitCode::out_of_memory;
  }
  if (findings.run.diverged) {
    const DivergedEvent& diverged = *findings.run.diverged;
    write_text(stderr, fmt::format("{} the loss of these weights is not finite; the first such value is in {}{}{}\n",
                                   paint(style_for(stderr), Ink::red, "Diverged:"), diverged.tensor,
                                   diverged.layer.empty() ? "" : " of layer ", diverged.layer));
    return ExitCode::diverged;
  }
  if (findings.run.status == RunStatus::interrupted || interruption.requests.load() > 0) return ExitCode::interrupted;
  if (!arguments.confusion.empty()) {
    if (findings.run.evaluation.counted.confusion.empty())
      throw ConfigError(
          "--confusion: no confusion matrix is counted of this data; train.confusion_matrix=on counts one "
          "of classes");
    const std::string csv = confusion_csv(findings);
    ReplacedFile file(arguments.confusion);
    file.write(csv.data(), csv.size());
    file.finish();
  }
  if (arguments.json)
    write_exactly(stdout, evaluation_json(findings) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, evaluation_report(findings, style_for(stdout)));
  return ExitCode::done;
}

}  // namespace

void add_eval_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* command = app.add_subcommand("eval", "Evaluate saved weights, and name the samples that cost most");
  arguments->experiment.add_run_to(*command);
  arguments->experiment.add_stage_to(*command);
  command
      ->add_option("--weights", arguments->weights,
                   "Weights in place of those: a file, or the folder of a checkpoint or a run")
      ->type_name("PATH");
  command->add_option("--data", arguments->data, "Other data: the file or folder that validation reads, or data.root")
      ->type_name("PATH");
  command->add_option("--worst", arguments->num_worst, "Samples of the highest loss to name; 10 if not given, 0: none")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{100'000}));
  command->add_option("--confusion", arguments->confusion, "Write the whole confusion matrix as CSV")
      ->type_name("FILE");
  command->add_flag("--overwrite", arguments->overwrite, "Replace that file where it exists");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print only what goes wrong");
  command->footer(
      "Gives what the run told of the same weights and data, to the bit, in the memory\nof weights and one "
      "batch.\n\n" +
      examples({"eval runs/quickstart", "eval runs/quickstart train.eval_batch_size=16 --worst 20",
                "eval configs/quickstart.yaml --weights model.safetensors"}));
  command->callback([arguments, &action] { action = [arguments] { return evaluate(*arguments); }; });
}

}  // namespace trainer
