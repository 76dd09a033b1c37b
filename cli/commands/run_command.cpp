#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "cli/bounded_spin.h"
#include "cli/commands/batch_option.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/commands/output_file.h"
#include "cli/commands/predict_arguments.h"
#include "cli/device_factory.h"
#include "cli/interrupt_signals.h"
#include "cli/live_logs.h"
#include "cli/rank_launcher.h"
#include "cli/ranks.h"
#include "cli/terminal/diagnostic_log.h"
#include "cli/terminal/event_fanout.h"
#include "cli/terminal/failure_sink.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/progress_sink.h"
#include "cli/terminal/rates_warnings.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/config/diagnostic.h"
#include "engine/config/override_text.h"
#include "engine/config/stages.h"
#include "engine/device/processor.h"
#include "engine/findings/known_rates.h"
#include "engine/findings/stage_plans.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/prediction.h"
#include "engine/ranks/untold_rank_error.h"
#include "engine/report/plan/prediction_plan_report.h"
#include "engine/report/run/json_lines_sink.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/run_start.h"
#include "engine/train/training_run.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

struct RunArguments {
  ExperimentArguments experiment;
  TrainingOptions options;
  std::string resume;
  std::optional<std::string> weights;
  std::int64_t log_every = 0;
  bool json = false, quiet = false, verbose = false, full = false;
  std::int64_t num_ranks = 0;  ///< --ranks; 0: not given
};

/// What the flag without a value stands for.
constexpr const char* newest_checkpoint = "newest";

OutOfMemoryReportOptions::Holds output_of(const RunDirectory& directory, bool is_own) {
  using Holds = OutOfMemoryReportOptions::Holds;
  if (is_own && !directory.checkpoint_steps().empty()) return Holds::own_run;
  return directory.holds_run() ? Holds::other_run : Holds::nothing;
}

ExitCode exit_code_of(RunStatus status) {
  switch (status) {
    case RunStatus::done:
      return ExitCode::done;
    case RunStatus::out_of_memory:
      return ExitCode::out_of_memory;
    case RunStatus::diverged:
      return ExitCode::diverged;
    case RunStatus::interrupted:
      return ExitCode::interrupted;
  }
  return ExitCode::unexpected;
}

/// Layers are the same for every batch size, and `auto` names none; one sample is too few for some batch norms.
Experiment with_any_batch(Experiment experiment, const DataDescription& data) {
  if (!experiment.train.batch_size.is_automatic()) return experiment;
  experiment.train.batch_size = std::min<std::int64_t>(2, data.num_train);
  return experiment;
}

/// The experiment's arguments, with the file of --weights before that of the configuration.
ExperimentArguments with_weights(ExperimentArguments arguments, const std::optional<std::string>& file) {
  if (!file) return arguments;
  Experiment named;
  named.weights.file = *file;
  arguments.overrides = merged_overrides(arguments.overrides, {override_of("weights.file", named)});
  return arguments;
}

/// Whether stages that predict come behind what this run trains.
bool predicts(const RunArguments& arguments, const Experiment& experiment) {
  return !experiment.predictions.empty() && arguments.options.until_stage.empty();
}

PredictArguments arguments_of(const PredictConfig& predicted) {
  PredictArguments asked;
  asked.inputs = predicted.inputs;
  asked.output = predicted.output;
  asked.masks = predicted.masks;
  asked.rows.top = predicted.top;
  asked.lines = predicted.lines;
  return asked;
}

/// Throws where a stage that predicts would fail whatever its model learns.
void check_prediction(const PredictConfig& predict, const Experiment& trained, const DataDescription& data,
                      std::int64_t batch_size, Device& device) {
  for (const std::string& input : predict.inputs)
    if (std::error_code ignored; input != "-" && !std::filesystem::exists(input, ignored))
      throw located_error(predict.location, fmt::format("'{}', to be predicted from, does not exist", input),
                          "predict.inputs that exist");
  const std::filesystem::path folder = std::filesystem::absolute(predict.output).parent_path();
  // The run makes its own.
  if (std::error_code ignored;
      !std::filesystem::is_directory(folder, ignored) &&
      folder.lexically_normal() != std::filesystem::absolute(trained.output).lexically_normal())
    throw located_error(predict.location, fmt::format("there is no folder '{}' for predict.output", folder.string()),
                        "a file in a folder that exists");
  const Program program = compile_prediction(trained, data, batch_size, 0, device);
  const PredictionOutputs outputs = describe_outputs(trained, {}, program.prediction->batches.front().type);
  try {
    check_options(arguments_of(predict), trained.data, outputs);
  } catch (const ConfigError& error) {
    throw located_error(predict.location, error.what(), "");
  }
}

/// Before anything is trained: whether there is memory and room for what is predicted behind it.
bool predictions_fit(const RunArguments& arguments, const Experiment& experiment, Device& device) {
  const Experiment& trained = last_trained(experiment);
  for (const PredictConfig& predict : experiment.predictions) {
    refuse_existing(predict.output, arguments.options.overwrite || !arguments.resume.empty());
    refuse_own_input(predict.output, predict.inputs);
    const PredictionPlanRequest request = prediction_request(trained, describe_data(trained.data, trained.seed));
    const PredictionPlanFindings findings =
        find_prediction_plan(request, device, capacity_of(trained, request.data, device));
    check_prediction(predict, trained, request.data, findings.batch_size, device);
    if (findings.plan.fits) continue;
    write_text(stderr, fmt::format("Stage {} does not fit; nothing has run.\n", predict.name) +
                           prediction_plan_report(findings, style_for(stderr)));
    return false;
  }
  return true;
}

/// By the parameters that the last step has left.
ExitCode predict_behind(const RunArguments& arguments, const Experiment& experiment, Device& device) {
  const RunDirectory directory(experiment.output);
  ExitCode code = ExitCode::done;
  for (const PredictConfig& predicted : experiment.predictions) {
    const std::vector<std::int64_t> steps = directory.checkpoint_steps();
    require_internal(!steps.empty(), "a run ends with a checkpoint");
    PredictArguments asked = arguments_of(predicted);
    asked.model = directory.checkpoint_path(steps.back());
    asked.overwrite = arguments.options.overwrite || !arguments.resume.empty();
    // The checkpoint says what `auto` stood for in training.
    if (last_trained(experiment).memory.allocator == AllocatorKind::automatic)
      asked.overrides.push_back(override_of("memory.allocator", last_trained(experiment)));
    asked.quiet = arguments.quiet || arguments.json;
    if (!asked.quiet) write_text(stdout, fmt::format("\nstage {}: {}\n", predicted.name, predicted.output));
    if (const ExitCode result = predict(asked, &device); result != ExitCode::done) code = result;
  }
  return code;
}

/// What resumes as asked, but for --from.
std::string resumption_of(const RunArguments& arguments, const ExperimentArguments& given) {
  std::vector<std::string> words = given.words("run");
  words.push_back(arguments.resume == newest_checkpoint ? "--resume" : "--resume=" + arguments.resume);
  if (!arguments.options.until_stage.empty()) words.insert(words.end(), {"--until", arguments.options.until_stage});
  return trainer_command(shell_words(words));
}

std::string continuation_of(const RunArguments& arguments, const ExperimentArguments& given) {
  std::vector<std::string> words = given.words("run");
  words.emplace_back("--resume");
  if (!arguments.options.until_stage.empty()) words.insert(words.end(), {"--until", arguments.options.until_stage});
  return "Continue with:\n" + pasted_command(words, style_for(stderr));
}

/// Whether what the folder holds is of this run: one that replaces another has nothing there before its first
/// checkpoint, and brings the other back where it fails.
class OwnCheckpoints final : public EventSink {
 public:
  explicit OwnCheckpoints(bool may_replace) : may_replace_(may_replace) {}
  void take(const Event& event) override {
    has_begun_ = has_begun_ || std::holds_alternative<StartEvent>(event);
    holds_ = holds_ || std::holds_alternative<CheckpointEvent>(event) || (!may_replace_ && has_begun_);
  }
  bool are_there() const { return holds_; }
  /// Whether training has begun.
  bool has_begun() const { return has_begun_; }

 private:
  const bool may_replace_;
  bool has_begun_ = false, holds_ = false;
};

/// Where a run fails, but for want of memory, its error tells from what to go on, and how.
template <typename Run>
RunStatus with_advice(const RunDirectory& directory, const OwnCheckpoints& own, const std::string& continuation,
                      Run run) {
  try {
    return run();
  } catch (Error& error) {
    if (error.exit_code() == ExitCode::out_of_memory) throw;
    const std::vector<std::int64_t> steps = directory.checkpoint_steps();
    if (own.are_there() && !steps.empty())
      error.advise(fmt::format("The last checkpoint is {}. {}", directory.checkpoint_path(steps.back()), continuation));
    else if (own.has_begun())
      error.advise("No checkpoint was saved before; checkpoint.every=STEPS saves some on the way.\n");
    throw;
  }
}

/// With as many ranks as --ranks says, or, where the configuration says nothing, what started this process.
Experiment load_ranks(ExperimentArguments& given, std::int64_t asked) {
  Experiment experiment = given.load();
  const std::optional<RankEnvironment> environment = rank_environment();
  const std::int64_t num_ranks = asked > 0 ? asked : environment ? environment->size : 1;
  if (num_ranks == total_ranks(experiment.parallel) || (asked == 0 && total_ranks(experiment.parallel) > 1))
    return experiment;
  add_ranks(given, num_ranks);
  return given.load();
}

ExitCode run_rank(const RunArguments& arguments, const ExperimentArguments& given, const Experiment& experiment,
                  Ranks& ranks, DiagnosticLog& log);

ExitCode run(const RunArguments& arguments) {
  if (arguments.weights && !arguments.resume.empty())
    throw ConfigError("--resume goes on with the weights of its checkpoint: leave --weights out");
  bound_spinning();
  DiagnosticLog log(arguments.verbose);
  ExperimentArguments given = with_weights(arguments.experiment, arguments.weights);
  Experiment experiment = load_ranks(given, arguments.num_ranks);
  log.info(fmt::format("read {}", given.config_path));
  Ranks ranks(experiment, arguments.num_ranks);
  if (ranks.are_to_be_started()) return launch_ranks(ranks.size());
  ranks.prepare(experiment);
  try {
    ranks.meet(experiment);
    const ExitCode code = run_rank(arguments, given, experiment, ranks, log);
    if (code == ExitCode::out_of_memory) {
      ranks.tell_end(code, "ran out of memory");
      ranks.leave_failed();
    } else {
      ranks.leave();
    }
    return code;
  } catch (const UntoldRankError&) {
    ranks.leave_failed();
    throw;
  } catch (const RankError& error) {
    ranks.leave_failed();
    if (!ranks.leads()) return error.exit_code();  // rank 0 tells of it
    throw;
  } catch (const Error& error) {
    const bool is_told = ranks.tell_end(error.exit_code(), error.what());
    ranks.leave_failed();
    if (is_told) return error.exit_code();  // likewise
    throw;
  } catch (const std::exception& error) {
    ranks.tell_end(ExitCode::unexpected, error.what());
    ranks.leave_failed();
    throw;
  }
}

ExitCode run_rank(const RunArguments& arguments, const ExperimentArguments& given, const Experiment& experiment,
                  Ranks& ranks, DiagnosticLog& log) {
  const std::unique_ptr<Device> device = make_device(experiment);
  ranks.reach(*device);
  log.info(fmt::format("device {}: {}", device->kind(), device->name()));
  if (ranks.leads() && predicts(arguments, experiment)) {
    // A run that is in the way is told of before the files that are predicted.
    if (arguments.resume.empty())
      choose_start(RunDirectory(experiment.output), experiment.config_path, arguments.options);
    if (!predictions_fit(arguments, experiment, *device)) return ExitCode::out_of_memory;
  }
  LoadedData data = load_data(experiment.data, experiment.seed);
  log.info(fmt::format("data: {} training and {} validation samples of {}", data.description.num_train,
                       data.description.num_validation, data.description.sample_text()));

  const DataDescription description = data.description;
  TrainingOptions options = arguments.options;
  options.trainer_version = TRAINER_VERSION;
  KnownRates known = rates_of(*device, experiment, usable_threads());
  RatesWarnings().tell(known.problem);
  options.peak_flops_per_second = peak_flops_of(*device, experiment.device, experiment.train.amp, known.rates);
  options.rates = std::move(known.rates);
  options.resume = !arguments.resume.empty();
  if (arguments.resume != newest_checkpoint) options.resume_from = arguments.resume;
  options.resumption = resumption_of(arguments, given);
  options.ranks = ranks.communicator();
  options.carrier = ranks.carrier();

  Interruption interruption;
  EventFileSink event_file(folder_of_rank(experiment.output, ranks.rank()));
  JsonLinesSink json_lines(stdout);
  ProgressSink progress({can_redraw(stdout), arguments.log_every > 0 ? arguments.log_every : experiment.train.log_every,
                         style_for(stdout), &interruption, event_file.path(),
                         experiment.stages.empty() && experiment.train.batch_size.is_automatic(), arguments.full});
  FailureSink failure(
      {given.config_path, given.overrides, options.from_stage, options.until_stage, ranks.rank(),
       [&] { return ranks.runs_out_behind_another(); }, arguments.json, arguments.full, RunDirectory(experiment.output),
       style_for(stderr),
       [&] { return layer_labels(compile(with_any_batch(experiment, description), description, *device)); },
       [&](bool planned) {
         // What a run replaces is there until its plan has fitted.
         const bool is_own = arguments.resume == newest_checkpoint || !planned;
         return output_of(RunDirectory(experiment.output), is_own);
       }});
  EventFanout events;
  // In front of the events' file, which then has what goes wrong there before the end.
  std::optional<LiveLogs> logs;
  if (ranks.leads()) {
    events.add(logs.emplace(experiment, given.overrides, events));
    options.weights_watch = logs->weights_watch();
    if (const std::string address = logs->metrics_address(); !address.empty() && !arguments.quiet)
      write_text(stderr, fmt::format("Metrics are served at {} while the run goes on.\n", address));
  }
  events.add(event_file);
  if (arguments.json && ranks.leads())
    events.add(json_lines);
  else if (!arguments.quiet && ranks.leads())
    events.add(progress);
  events.add(failure);
  OwnCheckpoints own(arguments.options.overwrite);
  events.add(own);

  std::signal(SIGPIPE, SIG_IGN);  // a run outlives whoever reads what it prints
  const std::string continuation = continuation_of(arguments, given);
  const RunStatus status = with_advice(RunDirectory(experiment.output), own, continuation, [&] {
    // Of the training: what predicts ends as any program does. A terminal's signals reach all ranks; one says so.
    InterruptSignals signals(interruption, ranks.leads() ? InterruptSignals::note_of_run : "");
    const RunStatus ended = run_training(experiment, std::move(data), *device, options, interruption, events);
    if (ended == RunStatus::interrupted) signals.stay_until_exit();
    return ended;
  });
  failure.leave_report();
  if (status == RunStatus::interrupted && ranks.leads()) write_text(stderr, continuation);
  if (status == RunStatus::done && ranks.leads() && predicts(arguments, experiment))
    return predict_behind(arguments, experiment, *device);
  return exit_code_of(status);
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Train, and tell what memory it holds at every step");
  arguments->experiment.add_to(*command);
  command
      ->add_flag(fmt::format("--resume{{{}}}", newest_checkpoint), arguments->resume,
                 "Continue from the newest checkpoint, or from PATH")
      ->option_text(" [=PATH]");
  command
      ->add_option("--weights", arguments->weights,
                   "Start from saved weights: a file, or a checkpoint's or run's folder")
      ->type_name("PATH");
  command->add_option("--from", arguments->options.from_stage, "Leave out the stages before this one")
      ->type_name("STAGE");
  command->add_option("--until", arguments->options.until_stage, "End behind this stage; --resume goes on")
      ->type_name("STAGE");
  command->add_flag("--accept-previous", arguments->options.accept_previous,
                    "With --resume: pass over a damaged newest checkpoint");
  command->add_flag("--overwrite", arguments->options.overwrite, "Start anew in an output directory that holds a run");
  command->add_flag("--debug-sync", arguments->options.debug_sync,
                    "Wait after each op, so that a GPU's fault names it");
  command->add_option("--log-every", arguments->log_every, "Steps between lines; a sensible number if not given")
      ->type_name("N")
      ->check([](const std::string& text) {
        std::int64_t number = 0;
        const bool positive = CLI::detail::lexical_cast(text, number) && number > 0;
        return positive ? std::string() : fmt::format("'{}' is not an integer of at least 1", text);
      });
  command
      ->add_option("--ranks", arguments->num_ranks,
                   "Train with N processes on this machine; each takes its part of every batch")
      ->type_name("N")
      ->check(whole_number(most_ranks, "fit"));
  command->add_flag("--json", arguments->json, "Print events as JSON Lines on stdout, and nothing else there");
  command->add_flag("-q,--quiet", arguments->quiet, "Print only what goes wrong");
  command->add_flag("--full", arguments->full, "Print tables of weights and an out-of-memory whole");
  command->add_flag("-v,--verbose", arguments->verbose, "Tell on stderr what is read before the run");
  command->footer(
      "Ctrl-C finishes the step, saves a checkpoint and exits with 75; a second one\nstops at once.\n\n" +
      examples({"run configs/quickstart.yaml", "run configs/quickstart.yaml optimizer.lr=0.001 output=runs/low",
                "run configs/quickstart.yaml --resume"}));
  command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace trainer
