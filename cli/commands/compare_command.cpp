#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "engine/report/compare/run_comparison.h"

namespace trainer {
namespace {

struct CompareArguments {
  std::vector<std::string> runs, checks;
  bool json = false, quiet = false;
};

ExitCode compare_named_runs(const CompareArguments& arguments) {
  if (arguments.runs.size() < 2 || arguments.runs.size() > most_compared_runs)
    throw ConfigError(fmt::format("compare takes 2 to {} runs, and {} {} named", most_compared_runs,
                                  arguments.runs.size(), arguments.runs.size() == 1 ? "is" : "are"));
  std::vector<RunCheck> checks;
  for (const std::string& check : arguments.checks) checks.push_back(parse_run_check(check));
  std::vector<ComparedRun> runs;
  for (const std::string& path : arguments.runs) runs.push_back(read_compared_run(path));
  const RunComparison comparison = compare_runs(std::move(runs), checks);
  if (arguments.json)
    write_exactly(stdout, run_comparison_json(comparison) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, run_comparison_report(comparison, style_for(stdout)));
  // They stand behind the tables where both go to one place.
  std::fflush(stdout);
  for (const CheckResult& result : comparison.checks)
    if (!result.passed)
      write_text(stderr, wrap(fmt::format("Check failed: {}", result.message),
                              static_cast<std::size_t>(style_for(stderr).width)) +
                             '\n');
  return comparison.passed() ? ExitCode::done : ExitCode::unexpected;
}

}  // namespace

void add_compare_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare", "Tell what differs between runs, and check that none is worse");
  command
      ->add_option("RUN", arguments->runs,
                   "Folders of runs or ranks, or files of 'plan --json'; the first is the reference")
      ->required()
      ->type_name("...");
  command
      ->add_option("--check", arguments->checks,
                   "Exit with 1 where a run is worse than the first by more: memory=1%, speed=5%, loss=0.01, "
                   "memory.reserved=2MiB, config=0, accuracy=exact, steps=±2; again for more of them")
      ->type_name("KEY=TOLERANCE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_flag("--json", arguments->json, "Print the event comparison as one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print only what fails");
  command->footer(
      "Only what is worse fails a check: more memory or time, less speed, a higher\nloss, a lower accuracy. A part "
      "(1%) "
      "is of the first run's value; 0 allows\nnothing worse, exact no difference, ±1% neither direction.\n\n" +
      examples({"compare runs/a runs/b", "compare runs/main runs/change --check memory=0 --check speed=5%",
                "compare plan.json runs/a"}));
  command->callback([arguments, &action] { action = [arguments] { return compare_named_runs(*arguments); }; });
}

}  // namespace trainer
