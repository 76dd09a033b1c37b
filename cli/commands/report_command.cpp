#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/output_file.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/planning_progress.h"
#include "cli/terminal/rates_warnings.h"
#include "cli/terminal/terminal.h"
#include "engine/bytes.h"
#include "engine/config/text/utf8_text.h"
#include "engine/report/page/report_page.h"
#include "engine/report/text/style.h"
#include "engine/train/files/replaced_file.h"
#include "engine/train/files/run_directory.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

constexpr std::size_t most_inputs = 16;

struct ReportArguments {
  std::vector<std::string> words;  ///< inputs, and overrides behind configurations
  std::string output, gpu, capacity, ranks, stage;
  bool overwrite = false, quiet = false;
};

/// "train.batch_size=64": a key, and not a path with '=' in it.
bool is_override(const std::string& word) {
  const std::size_t mark = word.find('=');
  if (mark == 0 || mark == std::string::npos) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(mark), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_' || letter == '.' || letter == '-';
  });
}

std::vector<std::int64_t> read_rank_list(const std::string& list) {
  std::vector<std::int64_t> ranks;
  if (list.empty()) return ranks;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::int64_t rank = -1;
    const auto [stop, error] = std::from_chars(list.data() + begin, list.data() + end, rank);
    if (error != std::errc() || stop != list.data() + end || rank < 0 || rank >= most_ranks)
      throw ConfigError(fmt::format("--rank '{}' is not a list of ranks; write 0 or 0,3", list));
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
    begin = end + 1;
  }
  return ranks;
}

std::vector<ReportRequest> read_inputs(const ReportArguments& arguments) {
  std::vector<ReportRequest> requests;
  for (const std::string& word : arguments.words) {
    if (!is_override(word)) {
      requests.push_back({.path = word});
      continue;
    }
    if (requests.empty())
      throw ConfigError(fmt::format("'{}' stands before any input; write it behind a configuration", word));
    if (names_run(requests.back().path))
      throw ConfigError(
          fmt::format("'{}' stands behind a run, {}, which is shown as it was", word, requests.back().path));
    requests.back().overrides.push_back(word);
  }
  const std::vector<std::int64_t> ranks = read_rank_list(arguments.ranks);
  if (const std::size_t count = requests.size() * std::max<std::size_t>(ranks.size(), 1); count > most_inputs)
    throw ConfigError(fmt::format("{} inputs are more than one page shows, {}", count, most_inputs));
  for (const auto& [option, value] : {std::pair("--gpu", &arguments.gpu), std::pair("--capacity", &arguments.capacity)})
    if (value->find(',') != std::string::npos)
      throw ConfigError(fmt::format("{} '{}' is a list; a report plans for one, and '{}' compares", option, *value,
                                    trainer_command("plan")));
  for (ReportRequest& request : requests) {
    request.ranks = ranks;
    request.gpu = arguments.gpu;
    request.capacity = arguments.capacity;
    if (arguments.stage.empty()) continue;
    if (names_run(request.path)) throw ConfigError("--stage is for configurations: of a run all stages are shown");
    request.stage = arguments.stage;
  }
  return requests;
}

void write_page(const std::string& path, const std::string& html) {
  ReplacedFile file(path);
  file.write(html.data(), html.size());
  file.finish();
}

/// What is read of an input, none of which the page may take the place of.
void add_read_files(const ReportRequest& request, std::vector<std::string>& paths) {
  if (!names_run(request.path)) {
    paths.push_back(request.path);
    return;
  }
  const std::filesystem::path events = events_path_of(request.path);
  paths.push_back(events.string());
  paths.push_back((events.parent_path() / config_file).string());
}

ExitCode report(const ReportArguments& arguments) {
  std::vector<ReportRequest> requests = read_inputs(arguments);
  std::vector<std::string> paths;
  for (const ReportRequest& request : requests) add_read_files(request, paths);
  refuse_own_input(arguments.output, paths);
  refuse_existing(arguments.output, arguments.overwrite);
  PlanningProgress progress(!arguments.quiet);
  RatesWarnings warnings;
  ReportPage page(TRAINER_VERSION);
  for (ReportRequest& request : requests) {
    request.watch = &progress;
    for (ReportedInput& input :
         find_reported_inputs(request, MachineDevices(), [&](const std::string& problem) { warnings.tell(problem); }))
      page.add(std::move(input));
  }
  const std::string html = page.html();
  write_page(arguments.output, html);
  if (!arguments.quiet)
    write_text(stdout, fmt::format("Wrote {} ({}): {}{}. Open it in a browser; it loads nothing.\n", arguments.output,
                                   format_bytes(static_cast<std::int64_t>(html.size())),
                                   format_number_of(static_cast<std::int64_t>(page.num_inputs()), "input"),
                                   page.fits() ? "" : ", of which not all fit"));
  return ExitCode::done;
}

}  // namespace

void add_report_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand("report", "Draw plans and runs as one HTML page: a map of memory, curves");
  command
      ->add_option("INPUT", arguments->words,
                   "A run's folder or events.jsonl, or a configuration with key=value behind it; several compare")
      ->required()
      ->type_name("...");
  command->add_option("-o,--output", arguments->output, "The page to write")->required()->type_name("FILE.html");
  command
      ->add_option("--gpu", arguments->gpu, "Plan for a GPU that need not be here, such as rtx4090 ('plan --gpu list')")
      ->type_name("PROFILE");
  command->add_option("--capacity", arguments->capacity, "Memory to fit into, such as 2GiB")->type_name("SIZE");
  command->add_option("--rank", arguments->ranks, "Of several ranks these: 3, or 0,3 to compare")->type_name("K");
  command->add_option("--stage", arguments->stage, "Of a configuration with several stages this one alone")
      ->type_name("NAME");
  command->add_flag("--overwrite", arguments->overwrite, "Replace the page");
  command->add_flag("-q,--quiet", arguments->quiet, "Print only what goes wrong");
  command->footer(
      "A run is shown with the plan of its configuration beneath, finished or not.\n"
      "What does not fit is drawn as it would be, with what to change.\n\n" +
      examples({"report configs/quickstart.yaml -o quickstart.html", "report runs/quickstart -o run.html",
                "report configs/quickstart.yaml configs/quickstart.yaml train.batch_size=256 -o compared.html",
                "report configs/cifar10_resnet18.yaml train.batch_size=6144 --gpu rtx3060-12gb -o resnet18.html"}));
  command->callback([arguments, &action] { action = [arguments] { return report(*arguments); }; });
}

}  // namespace trainer
