#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/planning_progress.h"
#include "cli/terminal/rates_warnings.h"
#include "cli/terminal/terminal.h"
#include "engine/config/load_experiment.h"
#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"
#include "engine/findings/find_fit.h"
#include "engine/findings/gpu_ranks.h"
#include "engine/findings/rank_range.h"
#include "engine/report/plan/fit_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

struct FitArguments {
  ExperimentArguments experiment;
  std::string gpu, capacity, max, keep = "batch", write;
  std::int64_t pick = 0;           ///< 0: the fastest
  std::string ranks;               ///< --ranks, as given
  std::optional<RankRange> range;  ///< of several numbers of ranks
  std::int64_t num_nodes = 0;      ///< --nodes; 0: not given
  std::optional<GpuNodes> nodes;   ///< whose layouts are searched
  bool json = false, quiet = false, overwrite = false;
};

/// The configuration that was chosen, as a file of its own.
void write_chosen(const FitArguments& arguments, const FitFindings& findings, const Experiment& chosen,
                  const std::vector<std::string>& set, std::int64_t capacity) {
  const std::string text =
      fmt::format("# {} with {}\n# chosen by 'trainer fit' for {} bytes on {} ({})\n{}",
                  printable(arguments.experiment.config_path), set.empty() ? "nothing changed" : shell_words(set),
                  capacity, findings.device_kind, findings.device_name, resolved_yaml(chosen));
  if (arguments.overwrite)
    write_file_durably(arguments.write, text);
  else if (!write_new_file_durably(arguments.write, text))
    throw DataError(fmt::format("{} exists; name another file, or replace it with --overwrite", arguments.write));
  if (!arguments.quiet && !arguments.json)
    write_text(stdout, fmt::format("\nWrote {}. Next:\n{}", arguments.write,
                                   pasted_command({"run", arguments.write}, style_for(stdout))));
}

FitRequest request_of(const FitArguments& arguments, PlanningWatch& watch) {
  return {.config_path = arguments.experiment.config_path,
          .overrides = arguments.experiment.overrides,
          .gpu = arguments.gpu,
          .capacity = arguments.capacity,
          .max = arguments.max,
          .stage = arguments.experiment.stage,
          .keeps_result = arguments.keep == "same-result",
          .ranks = arguments.range,
          .nodes = arguments.nodes,
          .watch = &watch};
}

FitFindings find(const FitArguments& arguments) {
  arguments.experiment.load_one();  // tells what is wrong in it, and what several values are
  PlanningProgress progress(!arguments.quiet && !arguments.json);
  try {
    return find_fit(request_of(arguments, progress), MachineDevices(),
                    [](const std::string& problem) { RatesWarnings().tell(problem); });
  } catch (const PlanningInterrupted& error) {
    if (!progress.largest_fitting()) throw;
    throw PlanningInterrupted(fmt::format("{}; of the values that were planned, {} is the largest that fits",
                                          error.what(), format_count(*progress.largest_fitting())));
  }
}

/// Of --gpu 'h100*16' --nodes 2.
void settle_nodes(FitArguments& arguments) {
  const std::int64_t num_nodes = arguments.num_nodes;
  if (!has_number_of_ranks(arguments.gpu) || arguments.gpu.find(',') != std::string::npos)
    throw ConfigError(
        fmt::format("--nodes {} is of one kind of GPU and how many there are of it: write --gpu 'h100*{}' --nodes {}",
                    num_nodes, 8 * num_nodes, num_nodes));
  if (!arguments.ranks.empty())
    throw ConfigError(
        fmt::format("--nodes {} has all of --gpu '{}' share the model, and --ranks {} says how many; "
                    "leave one out",
                    num_nodes, arguments.gpu, arguments.ranks));
  if (!arguments.max.empty())
    throw ConfigError(
        fmt::format("--nodes {} searches for layouts, and --max {} for the largest value with one of "
                    "them; leave one out",
                    num_nodes, arguments.max));
  const GpuRanks gpu = read_gpu_ranks({arguments.gpu}).front();
  if (gpu.num_ranks % num_nodes != 0)
    throw ConfigError(fmt::format("--nodes {}: each has as many GPUs, and {} are not a multiple of {}", num_nodes,
                                  gpu.num_ranks, num_nodes));
  arguments.gpu = gpu.gpu;
  arguments.nodes = GpuNodes{.num_gpus = gpu.num_ranks, .num_nodes = num_nodes};
}

/// Of --ranks, or of --gpu 'h100*8'; one number is set, of several `range` is given.
void settle_ranks(FitArguments& arguments) {
  if (has_number_of_ranks(arguments.gpu)) {
    if (arguments.gpu.find(',') != std::string::npos)
      throw ConfigError(
          fmt::format("--gpu '{}': fit searches for one kind of GPU; write one with a number, h100*8", arguments.gpu));
    if (!arguments.ranks.empty())
      throw ConfigError(fmt::format("--gpu '{}' says how many ranks there may be, and --ranks {} too; leave one out",
                                    arguments.gpu, arguments.ranks));
    const GpuRanks gpu = read_gpu_ranks({arguments.gpu}).front();
    arguments.gpu = gpu.gpu;
    arguments.range = RankRange{1, gpu.num_ranks};
  } else if (!arguments.ranks.empty()) {
    arguments.range = read_rank_range(arguments.ranks);
  }
  if (!arguments.range) return;
  if (arguments.range->is_one()) {
    add_ranks(arguments.experiment, arguments.range->highest);
    arguments.range.reset();
  } else if (!arguments.max.empty()) {
    throw ConfigError(fmt::format("--max {} searches with one number of ranks; write --ranks {}", arguments.max,
                                  arguments.range->highest));
  }
}

ExitCode fit(FitArguments arguments) {
  arguments.num_nodes > 0 ? settle_nodes(arguments) : settle_ranks(arguments);
  const FitFindings findings = find(arguments);
  const auto num_choices = static_cast<std::int64_t>(findings.choices.size());
  if (!findings.maximum && num_choices > 0 && arguments.pick > num_choices)
    throw ConfigError(fmt::format("--pick {}: there {} {}", arguments.pick, num_choices == 1 ? "is" : "are",
                                  format_number_of(num_choices, "choice")));
  if (arguments.json)
    write_exactly(stdout, fit_json(findings) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, fit_report(findings, style_for(stdout)));
  if (!findings.found()) return ExitCode::does_not_fit;
  if (arguments.write.empty()) return ExitCode::done;
  if (findings.maximum) {
    const std::vector<std::string> set = {fmt::format("{}={}", findings.maximum->key, *findings.maximum->value())};
    std::vector<std::string> overrides = arguments.experiment.overrides;
    overrides.push_back(set.front());  // of a stage, with its place
    write_chosen(arguments, findings, load_experiment(arguments.experiment.config_path, overrides), set,
                 findings.capacity);
  } else {
    const std::size_t picked = arguments.pick > 0 ? static_cast<std::size_t>(arguments.pick) - 1 : findings.fastest();
    const FitChoice& choice = findings.choices[picked];
    write_chosen(arguments, findings, choice.experiment, choice.set, choice.capacity);
  }
  return ExitCode::done;
}

}  // namespace

void add_fit_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<FitArguments>();
  CLI::App* command = app.add_subcommand("fit", "Find what fits: the largest value of a key, or the fastest settings");
  arguments->experiment.add_to(*command);
  arguments->experiment.add_stage_to(*command);
  CLI::Option* max =
      command->add_option("--max", arguments->max, "The largest value of KEY that fits, of LOWEST..HIGHEST where given")
          ->type_name("KEY[=RANGE]");
  command->add_option("--gpu", arguments->gpu, "For a GPU that need not be here; h100*8: 1..8 of them")
      ->type_name("PROFILE");
  command->add_option("--nodes", arguments->num_nodes, "With h100*16: layouts of them all on N machines")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--ranks", arguments->ranks, "N processes that share each batch; A..B: how many")
      ->type_name("N|A..B");
  command->add_option("--capacity", arguments->capacity, "Memory to fit into, such as 2GiB")->type_name("SIZE");
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
  command->add_option("--pick", arguments->pick, "With --write: which of the table, if not the fastest")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->needs(write)
      ->excludes(max);
  command->add_flag("--overwrite", arguments->overwrite, "With --write: replace the file where it exists")
      ->needs(write);
  command->add_flag("--json", arguments->json, "Print the answer as one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing; the exit code tells");
  command->footer("All of it is planned, nothing runs. Exits with 4 where nothing fits.\n\n" +
                  examples({"fit configs/quickstart.yaml --capacity 16MiB",
                            "fit configs/cifar10_resnet18.yaml --gpu rtx3060-12gb --max train.batch_size",
                            "fit configs/quickstart.yaml --capacity 8MiB --keep same-result --write small.yaml"}));
  command->callback([arguments, &action] { action = [arguments] { return fit(*arguments); }; });
}

}  // namespace trainer
