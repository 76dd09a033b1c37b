#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "datasets/file_scan.h"
#include "datasets/image/png_writer.h"
#include "engine/findings/data_survey.h"
#include "engine/report/data/contact_sheet.h"
#include "engine/report/data/data_report.h"
#include "engine/report/data/written_samples.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

struct DataArguments {
  ExperimentArguments experiment;
  std::string sheet;
  std::string npz;
  bool has_no_sheet = false, is_validation = false, json = false;
  std::int64_t num_surveyed = 1000, num_shown = 32, epoch = 1;
};

/// A picture may be replaced, and nothing else.
void write_sheet(const std::string& path, const Image& sheet) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    constexpr std::string_view signature = "\x89PNG";
    std::vector<std::byte> begin;
    read_file(path, begin, signature.size());
    if (std::string_view(reinterpret_cast<const char*>(begin.data()), begin.size()) != signature)
      throw DataError(fmt::format("'{}' exists and is no PNG; name another file with --sheet", path));
  }
  const std::string temporary = path + ".tmp";
  write_file_durably(temporary, png_of(sheet));
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) throw DataError(fmt::format("cannot write '{}': {}", path, error.message()));
}

ExitCode show_data(const DataArguments& arguments) {
  const Experiment experiment = arguments.experiment.load();
  const LoadedData data = load_data(experiment.data, experiment.seed);
  if (arguments.is_validation && !data.validation) throw DataError("--validation: there are no validation samples");
  const Dataset& told = arguments.is_validation ? *data.validation : *data.train;
  const std::int64_t epoch = arguments.epoch - 1;
  const DataSurvey survey = survey_data(data, experiment.seed, arguments.num_surveyed);
  DataReport report{experiment.data, data, survey, "", 0};
  report.of_validation = arguments.is_validation;
  report.epoch = arguments.epoch;
  const bool has_pictures = are_pictures(data.description.inputs.front().type);
  if (!arguments.sheet.empty() && !has_pictures)
    throw DataError(fmt::format("samples of {} are no pictures of 1, 3 or 4 channels: there is no sheet to write",
                                data.description.inputs.front().type.to_string()));
  if (has_pictures && !arguments.has_no_sheet) {
    const auto samples = chosen_samples(told.size(), experiment.seed, arguments.num_shown);
    report.sheet = arguments.sheet.empty()
                       ? std::filesystem::path(arguments.experiment.config_path).stem().string() + "-data.png"
                       : arguments.sheet;
    report.num_shown = static_cast<std::int64_t>(samples.size());
    write_sheet(report.sheet, contact_sheet(read_shown_samples(data, told, samples, epoch), class_names(data)));
  }
  if (!arguments.npz.empty()) {
    report.npz = arguments.npz;
    report.arrays = write_samples(told, std::min(told.size(), arguments.num_surveyed), epoch, report.npz);
  }
  if (arguments.json)
    write_exactly(stdout, data_json(report) + '\n');
  else
    write_text(stdout, arguments.experiment.config_path + '\n' + data_report(report, style_for(stdout)));
  return ExitCode::done;
}

}  // namespace

void add_data_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<DataArguments>();
  CLI::App* command = app.add_subcommand("data", "Show the data: shapes, classes, statistics, a sheet of pictures");
  arguments->experiment.add_to(*command);
  arguments->experiment.add_stage_to(*command);
  CLI::Option* const sheet = command->add_option(
      "--sheet", arguments->sheet, "The PNG of prepared samples; CONFIG's name with -data.png if not given");
  sheet->type_name("FILE");
  command->add_flag("--no-sheet", arguments->has_no_sheet, "Write no picture")->excludes(sheet);
  command
      ->add_option("--samples", arguments->num_surveyed,
                   "Samples that statistics are of, and that --npz gets; 1,000 if not given")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--pictures", arguments->num_shown, "Samples on the sheet; 32 if not given")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000}));
  command->add_option("--npz", arguments->npz, "The first prepared samples as NumPy reads them")->type_name("FILE");
  CLI::Option* const validation = command->add_flag(
      "--validation", arguments->is_validation, "Validation samples on the sheet and in --npz, not training samples");
  command->add_option("--epoch", arguments->epoch, "That sheet and --npz are drawn for; 1 if not given")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->excludes(validation);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(examples({"data configs/quickstart.yaml", "data configs/quickstart.yaml --sheet digits.png",
                            "data configs/quickstart.yaml --npz digits.npz --samples 100"}));
  command->callback([arguments, &action] { action = [arguments] { return show_data(*arguments); }; });
}

}  // namespace trainer
