#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/bounded_spin.h"
#include "cli/commands/batch_option.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/planning_progress.h"
#include "cli/terminal/rates_warnings.h"
#include "cli/terminal/terminal.h"
#include "datasets/prediction/input_description.h"
#include "engine/findings/find_plan.h"
#include "engine/findings/find_prediction_plan.h"
#include "engine/findings/find_text_plan.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/findings/gpu_ranks.h"
#include "engine/findings/stage_plans.h"
#include "engine/report/memory/out_of_memory_report.h"
#include "engine/report/plan/comparison_report.h"
#include "engine/report/plan/gpu_list.h"
#include "engine/report/plan/plan_json.h"
#include "engine/report/plan/plan_report.h"
#include "engine/report/plan/prediction_plan_report.h"
#include "engine/report/plan/stage_plans_report.h"
#include "engine/report/plan/text_plan_report.h"
#include "engine/report/text/glossary.h"
#include "engine/train/executor.h"
#include "engine/train/files/trained_model.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

/// What `trainer plan` was given.
struct PlanArguments {
  ExperimentArguments experiment;
  std::string gpu, capacity;                  ///< as given, with commas
  std::vector<std::string> gpus, capacities;  ///< the entries of these, "all" written out
  std::vector<GpuRanks> rank_gpus;            ///< of entries with numbers, of which `gpus` is then the first
  std::int64_t text_length = 0;               ///< --generate; 0: a run is planned
  std::int64_t num_ranks = 0;                 ///< --ranks; 0: not given
  std::string batch_size;                     ///< --predict, a number or `auto`; empty: a run is planned
  bool json = false, quiet = false, words = false, verify = false, full = false;

  bool compares() const { return gpus.size() > 1 || capacities.size() > 1; }
};

// What `--gpu` takes instead of a profile.
constexpr const char* list_of_profiles = "list";
constexpr const char* all_profiles = "all";

bool asks_for_list(const PlanArguments& arguments) { return arguments.gpu == list_of_profiles; }

ExitCode list_profiles(const PlanArguments& arguments) {
  const std::vector<GpuProfile> profiles = shipped_gpu_profiles();
  if (arguments.json)
    write_exactly(stdout, gpu_profile_json(profiles) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, gpu_profile_table(profiles, style_for(stdout)));
  return ExitCode::done;
}

std::vector<std::string> split(const std::string& option, const std::string& list) {
  std::vector<std::string> parts;
  if (list.empty()) return parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    if (parts.back().empty()) throw ConfigError(fmt::format("{} '{}' has an empty entry", option, list));
    begin = end + 1;
  }
  return parts;
}

/// "all" becomes the names of all profiles.
std::vector<std::string> written_out(const std::vector<std::string>& gpus) {
  if (std::find(gpus.begin(), gpus.end(), all_profiles) == gpus.end()) return gpus;
  if (gpus.size() > 1) throw ConfigError("--gpu all stands for every profile; leave the others out");
  std::vector<std::string> names;
  for (const GpuProfile& profile : shipped_gpu_profiles()) names.push_back(short_name(profile));
  if (names.empty())
    throw ConfigError("no GPU profiles were found (configs/gpus/); --gpu also takes paths of profiles");
  return names;
}

/// Of --gpu 'h100*4,a100*4': as many ranks, each with its GPU.
void give_ranks_their_gpus(PlanArguments& arguments) {
  arguments.rank_gpus = read_gpu_ranks(arguments.gpus);
  if (arguments.rank_gpus.empty()) return;
  const std::int64_t num_ranks = num_ranks_of(arguments.rank_gpus);
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("--gpu '{}' {}", arguments.gpu, why));
  };
  if (arguments.text_length > 0 || !arguments.batch_size.empty())
    refuse("is for ranks that train together; --generate and --predict plan one process: leave the numbers out");
  if (arguments.capacities.size() > 1) refuse("plans every rank for one --capacity; give no list of them");
  if (arguments.verify) refuse("names GPUs of several ranks, and --verify runs one process; leave one of them out");
  const ParallelConfig parallel = arguments.experiment.load().parallel;
  const std::int64_t configured = total_ranks(parallel), of_each_part = parallel.pipeline * parallel.tensor;
  if (arguments.num_ranks > 0 && arguments.num_ranks != num_ranks)
    refuse(fmt::format("is {}, and --ranks {}; leave one of them out, or give the same number",
                       format_number_of(num_ranks, "GPU"), arguments.num_ranks));
  if (arguments.num_ranks == 0 && parallel.data > 1 && configured != num_ranks)
    refuse(fmt::format("is {}, and parallel.data is {}{}; write parallel.data={} behind the configuration",
                       format_number_of(num_ranks, "GPU"), parallel.data,
                       of_each_part > 1 ? fmt::format(" of {} ranks each", of_each_part) : "",
                       std::max<std::int64_t>(1, num_ranks / of_each_part)));
  if (configured != num_ranks) add_ranks(arguments.experiment, num_ranks);
  arguments.gpus = {arguments.rank_gpus.front().gpu};
  if (num_ranks == 1) arguments.rank_gpus.clear();
}

/// What `find` finds of the arguments, on this machine's devices.
template <typename Findings>
Findings find_for(Findings (*find)(const PlanRequest&, const DeviceSource&, const RatesProblemSink&),
                  const PlanArguments& arguments) {
  PlanningProgress progress(!arguments.quiet && !arguments.json);
  const PlanRequest request = {.experiment = arguments.experiment.load(),
                               .config_path = arguments.experiment.config_path,
                               .overrides = arguments.experiment.overrides,
                               .gpus = arguments.gpus,
                               .capacities = arguments.capacities,
                               .rank_gpus = arguments.rank_gpus,
                               .verify = arguments.verify,
                               .watch = &progress};
  RatesWarnings warnings;
  return find(request, MachineDevices(), [&](const std::string& problem) { warnings.tell(problem); });
}

ExitCode compare(const PlanArguments& arguments) {
  if (arguments.verify)
    throw ConfigError("--verify runs steps on this machine's device; give it no list of GPUs or capacities");
  arguments.experiment.load_one();  // targets are compared by one stage
  const PlanComparison comparison = find_for(compare_targets, arguments);
  if (arguments.json)
    write_exactly(stdout, comparison_json(comparison) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, comparison_report(comparison, style_for(stdout)));
  if (comparison.is_interrupted) return ExitCode::interrupted;
  return comparison.fits_all() ? ExitCode::done : ExitCode::does_not_fit;
}

StagePlans find_each_plan(const PlanRequest& request, const DeviceSource& devices, const RatesProblemSink& on_problem) {
  return find_stage_plans(request, devices, on_problem);
}

PlanFindings find_one_plan(const PlanRequest& request, const DeviceSource& devices,
                           const RatesProblemSink& on_problem) {
  return find_plan(request, devices, on_problem);
}

ExitCode plan_one(const PlanArguments& arguments) {
  if (arguments.verify) bound_spinning();
  PlanFindings findings;
  try {
    findings = find_for(find_one_plan, arguments);
  } catch (const ProgramOutOfMemory& error) {
    write_text(
        stderr,
        fmt::format(
            "{}\nThe plan fits its capacity, but the device had less when the steps ran: see what else holds its "
            "memory ('{}'), or give a smaller --capacity.\n",
            out_of_memory_message(error.failure(), "of this machine"), trainer_command("doctor")));
    return ExitCode::out_of_memory;
  }
  if (arguments.json)
    write_exactly(stdout, plan_json(findings) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, plan_report(findings, style_for(stdout), arguments.full));
  if (arguments.words && !arguments.json && !arguments.quiet)
    write_text(stdout, fmt::format("\nWords\n{}", memory_glossary(style_for(stdout))));
  if (findings.verification && !findings.verification->is_equal()) return ExitCode::unexpected;
  return findings.fits() ? ExitCode::done : ExitCode::does_not_fit;
}

ExitCode plan_stages(const PlanArguments& arguments) {
  if (arguments.verify) bound_spinning();
  const StagePlans plans = find_for(find_each_plan, arguments);
  if (arguments.json)
    write_exactly(stdout, stage_plans_json(plans) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, stage_plans_report(plans, style_for(stdout), arguments.full));
  const bool is_as_planned = std::all_of(plans.stages.begin(), plans.stages.end(), [](const StagePlan& stage) {
    return !stage.findings.verification || stage.findings.verification->is_equal();
  });
  if (!is_as_planned) return ExitCode::unexpected;
  return plans.fits() ? ExitCode::done : ExitCode::does_not_fit;
}

ExitCode plan_text(const PlanArguments& arguments) {
  if (arguments.compares() || arguments.verify)
    throw ConfigError("--generate plans a text for one device and capacity, and runs nothing: no lists, no --verify");
  const auto only = [](const std::vector<std::string>& given) { return given.empty() ? "" : given.front(); };
  const TextPlanRequest request{.experiment = arguments.experiment.load(),
                                .config_path = arguments.experiment.config_path,
                                .overrides = arguments.experiment.overrides,
                                .length = arguments.text_length,
                                .gpu = only(arguments.gpus),
                                .capacity = only(arguments.capacities)};
  const TextPlanFindings findings = find_text_plan(request, MachineDevices());
  if (arguments.json)
    write_exactly(stdout, text_plan_json(findings) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, text_plan_report(findings, style_for(stdout)));
  if (arguments.words && !arguments.json && !arguments.quiet)
    write_text(stdout, fmt::format("\nWords\n{}", memory_glossary(style_for(stdout))));
  return findings.plan.fits ? ExitCode::done : ExitCode::does_not_fit;
}

/// Of a trained model's folder, or of the model that a configuration describes.
PredictionPlanRequest request_of_predictions(const PlanArguments& arguments) {
  const ExperimentArguments& given = arguments.experiment;
  const auto only = [](const std::vector<std::string>& list) { return list.empty() ? "" : list.front(); };
  PredictionPlanRequest request;
  request.path = given.config_path;
  request.overrides = given.overrides;
  request.gpu = only(arguments.gpus);
  request.capacity = only(arguments.capacities);
  if (arguments.batch_size != "auto") request.batch_size = std::stoll(arguments.batch_size);
  std::error_code ignored;
  if (std::filesystem::is_directory(given.config_path, ignored)) {
    TrainedModel model = read_trained_model(given.config_path, given.overrides);
    request.experiment = std::move(model.experiment);
    request.data = std::move(model.data);
    return request;
  }
  request.experiment = given.load();
  request.data = describe_inputs(request.experiment.data, request.experiment.seed, {});
  count_input_readers(request.experiment.data, request.data);
  return request;
}

ExitCode plan_predictions(const PlanArguments& arguments) {
  if (arguments.compares() || arguments.verify)
    throw ConfigError("--predict plans for one device and capacity, and runs nothing: no lists, no --verify");
  const PredictionPlanFindings findings = find_prediction_plan(request_of_predictions(arguments), MachineDevices());
  if (arguments.json)
    write_exactly(stdout, prediction_plan_json(findings) + '\n');
  else if (!arguments.quiet)
    write_text(stdout, prediction_plan_report(findings, style_for(stdout)));
  if (arguments.words && !arguments.json && !arguments.quiet)
    write_text(stdout, fmt::format("\nWords\n{}", memory_glossary(style_for(stdout))));
  return findings.plan.fits ? ExitCode::done : ExitCode::does_not_fit;
}

ExitCode plan(PlanArguments arguments) {
  if (asks_for_list(arguments)) return list_profiles(arguments);
  add_ranks(arguments.experiment, arguments.num_ranks);
  arguments.gpus = written_out(split("--gpu", arguments.gpu));
  arguments.capacities = split("--capacity", arguments.capacity);
  give_ranks_their_gpus(arguments);
  if (arguments.text_length > 0 && !arguments.batch_size.empty())
    throw ConfigError("--generate and --predict plan different things; give one of the two");
  if (arguments.text_length > 0) return plan_text(arguments);
  if (!arguments.batch_size.empty()) return plan_predictions(arguments);
  if (arguments.compares()) return compare(arguments);
  const Experiment experiment = arguments.experiment.load();
  const bool is_one = experiment.stages.empty() && experiment.predictions.empty();
  return is_one ? plan_one(arguments) : plan_stages(arguments);
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand("plan", "Tell to the byte what a run will hold, without running it");
  arguments->experiment.add_to(*command);
  arguments->experiment.add_stage_to(*command);
  CLI::Option* config = command->get_option("CONFIG")->required(false);
  command
      ->add_option(
          "--gpu", arguments->gpu,
          "For a GPU that need not be here: rtx4090; a,b or 'all' compares; 'list' lists; 'a*4,b*4': of 8 ranks")
      ->type_name("PROFILE");
  command->add_option("--capacity", arguments->capacity, "Memory to fit into: 2GiB; a,b compares")->type_name("SIZE");
  command->add_option("--generate", arguments->text_length, "Plan a text of N tokens, prompt included")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, most_tried_length));
  command->add_option("--predict", arguments->batch_size, "Plan predicting N inputs at once; auto: what fits")
      ->type_name("N")
      ->check(whole_number_or_auto(most_asked_batch));
  command->add_option("--ranks", arguments->num_ranks, "Plan N processes that train together")
      ->type_name("N")
      ->check(whole_number(most_ranks, "fit"));
  command->add_flag("--verify", arguments->verify, "Also run two steps here, and compare bytes");
  command->add_flag("--json", arguments->json, "Print the plan as one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing; the exit code tells");
  command->add_flag("--full", arguments->full, "Name every change that fits, and what ranks hold by category");
  command->add_flag("--words", arguments->words, "Explain the words below the report");
  command->footer(
      "Exits with 4 where it does not fit (of several targets: one of them), and names\nchanges that do. --verify "
      "writes no files, and exits with 1 where the plan\ndiffers from what was measured.\n\n" +
      examples({"plan configs/quickstart.yaml --capacity 16MiB train.batch_size=512",
                "plan configs/cifar10_resnet18.yaml --gpu rtx3060-12gb", "plan configs/quickstart.yaml --verify",
                "plan --gpu list"}));
  command->callback([arguments, config, &action] {
    if (config->count() == 0 && !asks_for_list(*arguments)) throw CLI::RequiredError("CONFIG");
    action = [arguments] { return plan(*arguments); };
  });
}

}  // namespace trainer
