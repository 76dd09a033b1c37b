#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/devices/device_rates.h"
#include "cli/devices/plan_target.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/config/fields/integer_key.h"
#include "engine/config/load_experiment.h"
#include "engine/config/text/number_text.h"
#include "engine/plan/search/choices.h"
#include "engine/plan/search/find_maximum.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/run_schedule.h"
#include "engine/report/plan/fit_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

struct FitArguments {
  ExperimentArguments experiment;
  std::string gpu, capacity, max, keep = "batch", write;
  std::int64_t pick = 1;
  bool json = false, quiet = false, overwrite = false;
};

/// What `--max` says: KEY, or KEY=LOWEST..HIGHEST.
struct SearchedKey {
  std::string key;
  std::optional<std::int64_t> lowest, highest;
};

SearchedKey parse_searched_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  SearchedKey searched{text.substr(0, equals), {}, {}};
  if (equals == std::string::npos) return searched;
  const std::string range = text.substr(equals + 1);
  const std::size_t dots = range.find("..");
  const auto read = [](const std::string& number) -> std::optional<std::int64_t> {
    const auto value = read_integer(number);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
    return std::nullopt;
  };
  if (dots != std::string::npos) {
    searched.lowest = read(range.substr(0, dots));
    searched.highest = read(range.substr(dots + 2));
  }
  if (!searched.lowest || !searched.highest || *searched.lowest > *searched.highest)
    throw ConfigError(fmt::format("--max '{}': '{}' is not a range; write LOWEST..HIGHEST, such as {}=1..512", text,
                                  range, searched.key));
  return searched;
}

Maximum find_maximum_of(const FitArguments& arguments, const SearchedKey& searched, Planner& planner,
                        std::int64_t capacity) {
  const IntegerRange allowed = integer_range_of(searched.key);
  const std::int64_t lowest = searched.lowest.value_or(std::max<std::int64_t>(allowed.lowest, 1));
  const auto load_with = [&](std::int64_t value) {
    std::vector<std::string> overrides = arguments.experiment.overrides;
    overrides.push_back(fmt::format("{}={}", searched.key, value));
    return load_experiment(arguments.experiment.config_path, overrides);
  };
  // A place that is not in this model is a mistake, and no value of it fits.
  const Experiment first = load_with(std::clamp(lowest, allowed.lowest, allowed.highest));
  const DataDescription data = describe_data(first.data, first.seed);
  const bool changes_data = searched.key.starts_with("data.") || searched.key == "seed";
  const WithValue with_value = [&](std::int64_t value) -> std::optional<Candidate> {
    try {
      Candidate candidate{load_with(value), data};
      if (changes_data) candidate.data = describe_data(candidate.experiment.data, candidate.experiment.seed);
      return candidate;
    } catch (const ConfigError&) {
      return std::nullopt;
    } catch (const DataError&) {
      return std::nullopt;
    }
  };
  std::optional<std::int64_t> highest = searched.highest;
  if (!highest && searched.key == "train.batch_size") highest = data.num_train;
  Maximum maximum = find_maximum(planner, with_value, lowest, highest, allowed.highest, capacity);
  maximum.key = searched.key;
  return maximum;
}

/// The configuration that was chosen, as a file of its own.
void write_chosen(const FitArguments& arguments, const FitFindings& findings, const Experiment& chosen,
                  const std::vector<std::string>& set) {
  const std::string text =
      fmt::format("# {} with {}\n# chosen by 'trainer fit' for {} bytes on {} ({})\n{}",
                  arguments.experiment.config_path, set.empty() ? "nothing changed" : shell_words(set),
                  findings.capacity, findings.device_kind, findings.device_name, resolved_yaml(chosen));
  if (arguments.overwrite)
    write_file_durably(arguments.write, text);
  else if (!write_new_file_durably(arguments.write, text))
    throw DataError(fmt::format("{} exists; name another file, or replace it with --overwrite", arguments.write));
  if (!arguments.quiet && !arguments.json)
    fmt::print("\nWrote {}. Next:\n  trainer run {}\n", arguments.write, arguments.write);
}

FitFindings find_fit(const FitArguments& arguments, const Experiment& experiment, const DataDescription& data,
                     const PlanTarget& target) {
  FitFindings findings;
  findings.experiment_name = experiment.name;
  findings.config_path = arguments.experiment.config_path;
  findings.overrides = arguments.experiment.overrides;
  findings.device_kind = target.device->kind();
  findings.device_name = target.device->name();
  findings.profile = target.profile;
  findings.capacity = target.capacity.num_bytes;
  findings.capacity_origin = target.capacity.origin;
  findings.notes = target.notes;
  findings.rates = target.rates.origin;
  findings.rates_source = target.rates.source;
  Planner planner(*target.device, target.rates);
  if (!arguments.max.empty()) {
    findings.maximum = find_maximum_of(arguments, parse_searched_key(arguments.max), planner, findings.capacity);
    return findings;
  }
  const Experiment settled = settle_experiment(experiment, data, *target.device, findings.capacity);
  const Verdict as_is = planner.plan(experiment, data, findings.capacity);
  // Where the device cannot run it as it is, the reason is what the user wants to hear.
  if (as_is.problem) throw ConfigError(*as_is.problem);
  findings.as_is_fits = as_is.fits;
  findings.as_is_peak = as_is.peak_reserved;
  findings.effective_batch = RunSchedule(settled, data).step(1).num_samples;
  ChoiceOptions options;
  if (arguments.keep == "same-result") options.keep = ChoiceOptions::Keep::same_result;
  findings.choices = find_choices(planner, experiment, data, findings.capacity, options);
  return findings;
}

ExitCode fit(const FitArguments& arguments) {
  const Experiment experiment = arguments.experiment.load();
  const DataDescription data = describe_data(experiment.data, experiment.seed);
  const PlanTarget target = find_plan_target(experiment, data, arguments.gpu, arguments.capacity);
  RatesWarnings().tell(target.rates_problem);
  const FitFindings findings = find_fit(arguments, experiment, data, target);
  const auto num_choices = static_cast<std::int64_t>(findings.choices.size());
  if (!findings.maximum && num_choices > 0 && arguments.pick > num_choices)
    throw ConfigError(fmt::format("--pick {}: there {} {}", arguments.pick, num_choices == 1 ? "is" : "are",
                                  format_number_of(num_choices, "choice")));
  if (arguments.json)
    fmt::print("{}\n", fit_json(findings));
  else if (!arguments.quiet)
    fmt::print("{}", fit_report(findings, style_for(stdout)));
  if (!findings.found()) return ExitCode::does_not_fit;
  if (arguments.write.empty()) return ExitCode::done;
  if (findings.maximum) {
    const std::vector<std::string> set = {fmt::format("{}={}", findings.maximum->key, *findings.maximum->found.value)};
    std::vector<std::string> overrides = arguments.experiment.overrides;
    overrides.push_back(set.front());
    write_chosen(arguments, findings, load_experiment(arguments.experiment.config_path, overrides), set);
  } else {
    const Change& choice = findings.choices[static_cast<std::size_t>(arguments.pick) - 1];
    write_chosen(arguments, findings, choice.experiment, choice.set);
  }
  return ExitCode::done;
}

}  // namespace

void add_fit_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<FitArguments>();
  CLI::App* command = app.add_subcommand("fit", "Find what fits: the largest value of a key, or the fastest settings");
  arguments->experiment.add_to(*command);
  CLI::Option* max =
      command->add_option("--max", arguments->max, "The largest value of KEY that fits, of LOWEST..HIGHEST where given")
          ->type_name("KEY[=RANGE]");
  command->add_option("--gpu", arguments->gpu, "For a GPU that need not be here: its profile, such as rtx4090")
      ->type_name("PROFILE");
  command
      ->add_option("--capacity", arguments->capacity,
                   "Memory to fit into, such as 2GiB; else memory.limit or what is available")
      ->type_name("SIZE");
  command
      ->add_option("--keep", arguments->keep,
                   "What must stay: the samples of an update (batch), or its result too (same-result)")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"batch", "same-result"}))
      ->excludes(max);
  CLI::Option* write = command
                           ->add_option("--write", arguments->write,
                                        "Save what was found as a configuration, the fastest settings unless --pick")
                           ->type_name("FILE");
  command->add_option("--pick", arguments->pick, "With --write: which of the table instead of the first")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->needs(write)
      ->excludes(max);
  command->add_flag("--overwrite", arguments->overwrite, "With --write: replace the file where it exists")
      ->needs(write);
  command->add_flag("--json", arguments->json, "Print the answer as one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing; the exit code tells");
  command->footer(
      "All of it is planned, nothing runs. Exits with 4 where nothing fits.\n\n"
      "Examples:\n  trainer fit configs/quickstart.yaml --capacity 16MiB\n"
      "  trainer fit configs/cifar10_resnet18.yaml --gpu rtx3060-12gb --max train.batch_size\n"
      "  trainer fit configs/quickstart.yaml --capacity 8MiB --keep same-result --write small.yaml");
  command->callback([arguments, &action] { action = [arguments] { return fit(*arguments); }; });
}

}  // namespace trainer
