#include <fmt/format.h>

#include <CLI/CLI.hpp>
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
#include "engine/report/text/shell_words.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

struct DataArguments {
  ExperimentArguments experiment;
  std::string sheet;
  bool has_no_sheet = false, json = false;
  std::int64_t num_surveyed = 1000, num_shown = 32;
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
  const DataSurvey survey = survey_data(data, experiment.seed, arguments.num_surveyed);
  DataReport report{experiment.data, data, survey, "", 0};
  const bool has_pictures = are_pictures(data.description.inputs.front().type);
  if (!arguments.sheet.empty() && !has_pictures)
    throw DataError(fmt::format("samples of {} are no pictures of 1, 3 or 4 channels: there is no sheet to write",
                                data.description.inputs.front().type.to_string()));
  if (has_pictures && !arguments.has_no_sheet) {
    const auto samples = chosen_samples(data.train->size(), experiment.seed, arguments.num_shown);
    report.sheet = arguments.sheet.empty()
                       ? std::filesystem::path(arguments.experiment.config_path).stem().string() + "-data.png"
                       : arguments.sheet;
    report.num_shown = static_cast<std::int64_t>(samples.size());
    write_sheet(report.sheet, contact_sheet(read_shown_samples(data, samples), class_names(data)));
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
  CLI::Option* const sheet = command->add_option(
      "--sheet", arguments->sheet, "The PNG of prepared samples; CONFIG's name with -data.png if not given");
  sheet->type_name("FILE");
  command->add_flag("--no-sheet", arguments->has_no_sheet, "Write no picture")->excludes(sheet);
  command
      ->add_option("--samples", arguments->num_surveyed, "Training samples that statistics are of; 1,000 if not given")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--pictures", arguments->num_shown, "Samples on the sheet; 32 if not given")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000}));
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(examples({"data configs/quickstart.yaml", "data configs/quickstart.yaml --sheet digits.png"}));
  command->callback([arguments, &action] { action = [arguments] { return show_data(*arguments); }; });
}

}  // namespace trainer
