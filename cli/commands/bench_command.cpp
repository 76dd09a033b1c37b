#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/bounded_spin.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/rates_warnings.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset.h"
#include "engine/config/load_experiment.h"
#include "engine/device/processor.h"
#include "engine/findings/known_rates.h"
#include "engine/plan/capacity.h"
#include "engine/plan/process_memory.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/report/bench/bench_json.h"
#include "engine/report/bench/bench_report.h"
#include "engine/report/bench/data_bench_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/executor.h"
#include "engine/train/measure/calibration_networks.h"
#include "engine/train/measure/data_timing_file.h"
#include "engine/train/measure/kept_file.h"
#include "engine/train/measure/rates_file.h"
#include "engine/train/token_count.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

struct BenchArguments {
  ExperimentArguments experiment;
  std::int64_t num_steps = 0;  ///< 0: not given
  double seconds = 0;          ///< 0: not given
  bool data = false, json = false;
};

ExitCode calibrate_machine(const BenchArguments& arguments) {
  const std::vector<std::string>& overrides = arguments.experiment.overrides;
  for (const std::string& override : overrides) {
    if (!override.starts_with("device."))
      throw ConfigError(
          fmt::format("'{}' says nothing of the machine; without a CONFIG bench takes device.type, "
                      "device.threads and other keys of device",
                      override));
  }
  const CalibrationNetwork any = calibration_networks().front();
  const std::unique_ptr<Device> device = make_device(parse_experiment(any.yaml, "trainer bench", overrides));
  const std::string path = rates_path(device->name());
  require_writable(path);
  const bool shows_progress = can_redraw(stderr);
  const auto begin = std::chrono::steady_clock::now();
  std::size_t num_begun = 0;
  constexpr double most_seconds = 40;
  const Calibration calibration = calibrate(*device, most_seconds, [&](const std::string& name) {
    ++num_begun;
    if (!shows_progress) return;
    write_exactly(stderr, erased_line);
    write_text(stderr, fmt::format("measuring {} of {}: {}", num_begun, 2 * calibration_networks().size(), name));
  });
  if (shows_progress) write_exactly(stderr, erased_line);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  write_rates(path, device->name(), calibration.rates);
  if (arguments.json)
    write_exactly(stdout, calibration_json(calibration, device->kind(), device->name(), path, seconds) + '\n');
  else
    write_text(stdout, calibration_report(calibration, device->name(), path, seconds, style_for(stdout)));
  return ExitCode::done;
}

ExitCode bench_experiment(const BenchArguments& arguments) {
  std::int64_t num_ranks = 1;
  const Experiment asked = arguments.experiment.load_one(&num_ranks);
  if (!arguments.json) tell_of_one_process(num_ranks, "bench");
  const std::unique_ptr<Device> device = make_device(asked);
  const LoadedData data = load_data(asked.data, asked.seed);
  const std::int64_t capacity = run_capacity(asked, data.description, *device, /*dataset_is_loaded=*/true);
  const CompiledExperiment compiled = compile_experiment(asked, data.description, *device, capacity);
  const auto& [experiment, description, program, schedule] = compiled;
  if (schedule.total_steps() == 0)
    throw ConfigError("a run of no steps has none to time; train.steps=10 gives it some");

  BenchFindings findings;
  findings.experiment_name = experiment.name;
  findings.config_path = arguments.experiment.config_path;
  findings.device_kind = device->kind();
  findings.device_name = device->name();
  findings.batch_size = schedule.batch_size();
  findings.num_micro_batches = schedule.step(1).num_micro_batches;
  findings.tokens_per_sample = tokens_of_sample(experiment.data, description);
  findings.program = &program;
  KnownRates known = rates_of(*device, experiment, usable_threads());
  RatesWarnings().tell(known.problem);
  findings.rates = std::move(known.rates);
  findings.predicted = predict_step_time(program, schedule, findings.rates);  // before anything is measured
  constexpr std::int64_t usual_steps = 10;
  constexpr double most_seconds = 60;
  const bool is_asked = arguments.num_steps > 0;
  const std::int64_t num_steps = is_asked ? arguments.num_steps : usual_steps;
  findings.timing =
      time_steps(compiled, data, *device, capacity,
                 {.num_steps = num_steps, .num_observed = num_steps, .max_seconds = is_asked ? 0 : most_seconds});
  findings.ceilings = measure_ceilings(*device, experiment.train.amp);
  if (arguments.json)
    write_exactly(stdout, bench_json(findings) + '\n');
  else
    write_text(stdout, bench_report(findings, style_for(stdout)));
  return ExitCode::done;
}

ExitCode bench_data(const BenchArguments& arguments) {
  const Experiment experiment = arguments.experiment.load_one();
  const LoadedData data = load_data(experiment.data, experiment.seed);
  const std::string subject = timing_subject(experiment, data.description, usable_threads());
  const std::string path = data_timing_path(subject);
  require_writable(path);
  Experiment on_host = experiment;  // reading asks for no GPU
  on_host.device = {};
  on_host.device.type = DeviceType::cpu;
  const int num_threads = num_readers(experiment, data.description, *make_device(on_host));
  constexpr double usual_seconds = 3;
  const double seconds = arguments.seconds > 0 ? arguments.seconds : usual_seconds;
  const bool shows_progress = can_redraw(stderr);
  if (shows_progress) {
    write_exactly(stderr, erased_line);
    write_text(stderr, fmt::format("reading data for about {}", format_duration((num_threads > 1 ? 3 : 2) * seconds)));
  }
  DataBench bench;
  bench.experiment_name = experiment.name;
  bench.processor = fmt::format("{}, {}", processor_name(), format_number_of(usable_threads(), "usable thread"));
  bench.description = data.description;
  bench.reduced_decoding = experiment.data.reduced_decoding;
  bench.path = path;
  bench.timing = time_data(*data.train,
                           {.num_samples = data.train->size(),
                            .batch_size = experiment.train.batch_size.number().value_or(data.train->size()),
                            .shuffle = experiment.data.shuffle,
                            .drop_last = experiment.data.drop_last,
                            .seed = experiment.seed,
                            .shuffle_window = experiment.data.shuffle_buffer},
                           num_threads, seconds);
  if (shows_progress) write_exactly(stderr, erased_line);
  write_data_timing(path, subject, {bench.timing, std::time(nullptr)});
  if (arguments.json)
    write_exactly(stdout, data_bench_json(bench) + '\n');
  else
    write_text(stdout, data_bench_report(bench, style_for(stdout)));
  return ExitCode::done;
}

/// Flags that say nothing of what is measured.
void check_flags(const BenchArguments& arguments) {
  if (arguments.data && arguments.experiment.config_path.empty())
    throw ConfigError(fmt::format("--data reads the data of a CONFIG: '{} configs/quickstart.yaml --data'",
                                  trainer_command("bench")));
  if (arguments.data && arguments.num_steps > 0)
    throw ConfigError("--steps counts steps of training, of which --data runs none; --seconds says how long it reads");
  if (!arguments.data && arguments.seconds > 0)
    throw ConfigError("--seconds says how long --data reads; --steps how many steps are timed");
}

ExitCode bench(const BenchArguments& arguments) {
  check_flags(arguments);
  if (arguments.data) return bench_data(arguments);
  bound_spinning();
  const bool has_config = !arguments.experiment.config_path.empty();
  try {
    return has_config ? bench_experiment(arguments) : calibrate_machine(arguments);
  } catch (const ProgramOutOfMemory& error) {
    const Style style = style_for(stderr);
    const std::string advice =
        has_config ? "Who holds it, and what would fit:\n" + pasted_command(arguments.experiment.words("plan"), style)
                   : "Measuring takes about 1 GiB; free some first.\n";
    write_text(stderr, fmt::format("{} {}\n{}", paint(style, Ink::red, "error:"), error.what(), advice));
    return ExitCode::out_of_memory;
  }
}

/// `trainer bench device.threads=1`: the first word is no file but an override.
void take_override_for_config(ExperimentArguments& arguments) {
  std::error_code ignored;
  if (arguments.config_path.find('=') == std::string::npos || std::filesystem::exists(arguments.config_path, ignored))
    return;
  arguments.overrides.insert(arguments.overrides.begin(), arguments.config_path);
  arguments.config_path.clear();
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Measure this machine, or where the time of a step goes");
  arguments->experiment.add_to(*command);
  arguments->experiment.add_stage_to(*command);
  command->get_option("CONFIG")->required(false);
  command->add_option("--steps", arguments->num_steps, "Steps to time; 10 and at most a minute if not given")
      ->type_name("N")
      ->check([](const std::string& text) {
        std::int64_t number = 0;
        const bool positive = CLI::detail::lexical_cast(text, number) && number > 0;
        return positive ? std::string() : fmt::format("'{}' is not an integer of at least 1", text);
      });
  command->add_flag("--data", arguments->data, "Time how fast training samples are read and prepared, for plan");
  command->add_option("--seconds", arguments->seconds, "For which --data reads, each time; 3 if not given")
      ->type_name("S")
      ->check([](const std::string& text) {
        double number = 0;
        constexpr double least = 0.01, most = 3600;
        const bool is_fit = CLI::detail::lexical_cast(text, number) && number >= least && number <= most;
        return is_fit ? std::string() : fmt::format("'{}' is not a number of seconds from {} to {}", text, least, most);
      });
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "Without CONFIG: times ops of every kind for less than a minute and stores their\nrates, by which plan, fit and "
      "run then predict times; let the machine do\nnothing else meanwhile. device.KEY=VALUE chooses what to "
      "measure.\n\n" +
      examples({"bench", "bench device.threads=1", "bench configs/bench/cnn.yaml --steps 20",
                "bench configs/quickstart.yaml --data --seconds 1"}));
  command->callback([arguments, &action] {
    take_override_for_config(arguments->experiment);
    action = [arguments] { return bench(*arguments); };
  });
}

}  // namespace trainer
