#include "engine/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "engine/config/load_experiment.h"
#include "engine/config/yaml/references.h"
#include "engine/findings/plan_target.h"
#include "engine/memory/fingerprint.h"
#include "engine/program/run_checks.h"
#include "engine/report/sweep/sweep_plot.h"
#include "engine/report/sweep/sweep_table.h"
#include "engine/sweep/point_plan.h"
#include "engine/sweep/point_process.h"
#include "engine/sweep/sweep_folder.h"

namespace trainer {
namespace {

using SweepClock = std::chrono::steady_clock;

bool sets_output(const std::string& override_text) { return override_text.starts_with("output="); }

/// `output` as an override, whatever letters the folder's name has.
std::string output_override(const std::string& folder) {
  std::string quoted;
  for (const char letter : escape_references(folder))
    quoted += letter == '\'' ? std::string("''") : std::string(1, letter);
  return "output='" + quoted + "'";
}

/// The point's overrides, with the output that the sweep gives it.
std::vector<std::string> overrides_in(const SweepPoint& point, const std::string& folder) {
  std::vector<std::string> overrides = point.overrides;
  std::erase_if(overrides, sets_output);
  overrides.push_back(output_override(folder));
  return overrides;
}

/// Beside the runs of the experiment, unless output=FOLDER is given.
std::string folder_of(const SweepOptions& options, const SweepPoint& first) {
  const Experiment experiment = load_experiment(options.config_path, first.overrides);
  if (std::any_of(first.overrides.begin(), first.overrides.end(), sets_output)) return experiment.output;
  std::string folder = experiment.output + "-sweep";
  if (!options.plan_only) return folder;
  return folder + "-" + (options.gpu.empty() ? "plan" : std::filesystem::path(options.gpu).stem().string());
}

/// Which points to leave out: larger ones than one that did not fit.
class MemoryStop {
 public:
  void note(const SweepRow& row) {
    if (!lacks_memory(row.status)) return;
    const auto [smallest, is_new] = smallest_.emplace(others(row.values), row.values.front());
    if (!is_new && value_is_less(row.values.front(), smallest->second)) smallest->second = row.values.front();
  }
  bool leaves_out(const SweepPoint& point) const {
    const auto smallest = smallest_.find(others(point.values));
    return smallest != smallest_.end() && value_is_less(smallest->second, point.values.front());
  }

 private:
  static std::vector<std::string> others(const std::vector<std::string>& values) {
    return {values.begin() + 1, values.end()};
  }
  std::map<std::vector<std::string>, std::string> smallest_;  ///< first value that did not fit, by the others
};

PointStatus status_of(const ProcessEnd& end, bool told_end) {
  if (end.stopped) return PointStatus::interrupted;
  if (end.signal != 0) return PointStatus::crashed;
  switch (static_cast<ExitCode>(end.exit_code)) {
    case ExitCode::done:
      return told_end ? PointStatus::done : PointStatus::failed;
    case ExitCode::out_of_memory:
      return PointStatus::out_of_memory;
    case ExitCode::diverged:
      return PointStatus::diverged;
    case ExitCode::interrupted:
      return PointStatus::interrupted;
    default:
      return PointStatus::failed;
  }
}

std::string crash_message(int signal) {
  const std::string name = fmt::format("ended by signal {} ({})", signal, strsignal(signal));
  return signal == SIGKILL ? name + "; the system does so where the machine's own memory runs out" : name;
}

/// "error: x" becomes "x", as a field and behind a point's name.
std::string error_text(std::string said) {
  said.erase(0, said.find_first_not_of(" \n"));
  constexpr std::string_view prefix = "error: ";
  if (said.starts_with(prefix)) said.erase(0, prefix.size());
  said.erase(said.find_last_not_of(" \n") + 1);
  return said;
}

int exit_code_of_row(const SweepRow& row) {
  switch (row.status) {
    case PointStatus::done:
    case PointStatus::out_of_memory:
    case PointStatus::fits:
    case PointStatus::does_not_fit:
      return 0;
    case PointStatus::crashed:
      return static_cast<int>(ExitCode::unexpected);
    default:
      return row.exit_code != 0 ? row.exit_code : static_cast<int>(ExitCode::unexpected);
  }
}

/// "measured, /home/a/.cache/trainer/rates.json, 1f0b…": differs where any rate does.
std::string text_of(const MachineRates& rates) {
  Fingerprint fingerprint(0);
  const auto add = [&](double number) { fingerprint.mix(std::bit_cast<std::int64_t>(number)); };
  for (const RateTable* table : {&rates.f32, &rates.half})
    for (const auto& rate_class : *table)
      for (const OpRate& rate : rate_class)
        for (const double number : {rate.flops_per_second, rate.bytes_per_second, rate.call_seconds}) add(number);
  add(rates.step_seconds);
  const char* origin = rates.origin == MachineRates::Origin::assumed   ? "assumed"
                       : rates.origin == MachineRates::Origin::profile ? "profile"
                                                                       : "measured";
  return fmt::format("{}, {}{}{:016x}", origin, rates.source, rates.source.empty() ? "" : ", ", fingerprint.value());
}

/// Throws ConfigError where --stop-on oom would leave out points that may well fit.
void check_stop(const SweepOptions& options, const SweptKey& first) {
  if (!options.stop_on_oom || grows_memory(first.key, first.values)) return;
  throw ConfigError(
      fmt::format("--stop-on oom leaves out larger values of the first key, and {}; put a key first whose numbers "
                  "need more memory the larger they are, such as train.batch_size, or leave --stop-on out",
                  first.key == "memory.limit" ? "a larger memory.limit fits more"
                                              : fmt::format("not all of {} are numbers", first.key)));
}

class Sweep {
 public:
  Sweep(const SweepOptions& options, const SweepGrid& grid, const DeviceSource& devices,
        const Interruption& interruption, SweepObserver& observer, const RatesProblemSink& on_rates_problem)
      : options_(options),
        interruption_(interruption),
        observer_(observer),
        points_(grid.points()),
        planner_(devices, options.gpu, options.capacity, on_rates_problem),
        header_(header_at(grid, points_.front().values)),
        folder_(
            folder_of(options, points_.front()), header_,
            [&](const std::vector<std::string>& values) { return header_at(grid, values); }, options.overwrite),
        keys_(grid.keys()) {}

  ExitCode run() {
    // Before anything is run for hours, and again before each point.
    if (!options_.plan_only)
      for (const SweepPoint& point : points_) folder_.check_is_free(point.name);
    observer_.begin(header_, points_.size(), folder_.path());
    SweepEnd end;
    end.num_points = static_cast<std::int64_t>(points_.size());
    end.folder = folder_.path();
    for (std::size_t i = 0; i < points_.size() && interruption_.requests == 0; ++i) {
      const SweepPoint& point = points_[i];
      if (const SweepRow* former = folder_.result_of(point.name); former != nullptr && still_holds(*former, point)) {
        ++end.num_kept;
        show(*former, true);
        continue;
      }
      if (options_.stop_on_oom && stop_.leaves_out(point)) {
        ++end.num_left_out;
        continue;
      }
      const SweepRow row = options_.plan_only ? planned(point) : trained(point, i + 1);
      // Nothing is kept of a point that was interrupted.
      if (row.status == PointStatus::interrupted && interruption_.requests > 0) break;
      if (row.status != PointStatus::interrupted) folder_.add(row);
      ++end.num_run;
      show(row, false);
    }
    end.interrupted = interruption_.requests > 0;
    const std::vector<SweepRow> rows = folder_.rows();
    if (!rows.empty()) {
      folder_.write("sweep.csv", sweep_csv(header_.keys, rows));
      folder_.write("sweep.svg", sweep_plot(plot_title(), keys_, rows));
    }
    observer_.end(end, rows);
    return end.interrupted ? ExitCode::interrupted : static_cast<ExitCode>(first_failure_);
  }

 private:
  /// Throws ConfigError, also where --gpu or --capacity is mistaken.
  SweepHeader header_at(const SweepGrid& grid, const std::vector<std::string>& values) {
    const Experiment experiment = load_experiment(options_.config_path, grid.point(values).overrides);
    SweepHeader header;
    header.version = options_.version;
    header.plan_only = options_.plan_only;
    header.gpu = options_.gpu;
    header.capacity = options_.capacity;
    for (const SweptKey& key : grid.keys()) header.keys.push_back(key.key);
    header.values = values;
    header.config_json = experiment.resolved_json;
    if (!options_.plan_only) return header;
    try {
      const PlanTarget& target = planner_.target_for(experiment);
      header.device = target.device->name();
      header.rates = text_of(target.rates);
    } catch (const DeviceError&) {
      // The device may be what is swept, or the data: each point tells in its row.
    } catch (const DataError&) {
    }
    return header;
  }

  /// Whether a former row is what this sweep would find. What is free on this machine is never the same twice: then a
  /// plan stays that fits into what is free now, and any other is made again.
  bool still_holds(const SweepRow& former, const SweepPoint& point) {
    if (!options_.plan_only) return true;
    try {
      const Experiment experiment = load_experiment(options_.config_path, point.overrides);
      const std::int64_t capacity = planner_.target_for(experiment).capacity.num_bytes;
      if (former.capacity == capacity) return true;
      return former.status == PointStatus::fits && former.peak_reserved && *former.peak_reserved <= capacity;
    } catch (const DeviceError&) {
      return false;  // planned again, its row says why it cannot be
    } catch (const DataError&) {
      return false;
    }
  }

  std::string plot_title() const {
    std::string name = load_experiment(options_.config_path, points_.front().overrides).name;
    if (!options_.gpu.empty()) name += " on " + std::filesystem::path(options_.gpu).stem().string();
    return options_.plan_only ? name + ", planned" : name;
  }

  void show(const SweepRow& row, bool kept) {
    stop_.note(row);
    if (first_failure_ == 0) first_failure_ = exit_code_of_row(row);
    observer_.ended(row, kept);
    if (const auto text = smaller_batch_text(row.asked_batch_size, row.batch_size.value_or(0));
        text && row.has_smaller_batches())
      observer_.noted(fmt::format("{}: {}", row.point, *text));
    // What was told of the point before need not be told again.
    if (row.error.empty() || row.error == told_) return;
    told_ = row.error;
    observer_.said(fmt::format("{}: {}\n", row.point, row.error));
  }

  SweepRow planned(const SweepPoint& point) {
    SweepRow row;
    row.point = point.name;
    row.values = point.values;
    const SweepClock::time_point begin = SweepClock::now();
    planner_.plan(load_experiment(options_.config_path, overrides_in(point, folder_.point_path(point.name))), row);
    row.seconds = std::chrono::duration<double>(SweepClock::now() - begin).count();
    return row;
  }

  SweepRow trained(const SweepPoint& point, std::size_t number) {
    SweepRow row;
    row.point = point.name;
    row.values = point.values;
    std::vector<std::string> words = {"run", options_.config_path};
    const std::vector<std::string> overrides = overrides_in(point, folder_.point_path(point.name));
    words.insert(words.end(), overrides.begin(), overrides.end());
    words.emplace_back("--json");
    // What this sweep has left there when it was killed is no result.
    if (folder_.begin(point.name)) words.emplace_back("--overwrite");
    observer_.begun(point);

    RunEventReader events;
    const SweepClock::time_point begin = SweepClock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(SweepClock::now() - begin).count(); };
    const auto show_status = [&] { observer_.running(point, number, events, seconds()); };
    show_status();
    const ProcessEnd end = run_point_process(
        words, interruption_.requests,
        [&](std::string_view line) {
          events.read(line);
          show_status();
        },
        show_status);
    const bool told_end = events.fill(row);
    row.seconds = seconds();
    row.exit_code = end.exit_code;
    row.signal = end.signal;
    row.status = status_of(end, told_end);
    if (row.status == PointStatus::crashed)
      row.error = crash_message(end.signal);
    else if (row.status == PointStatus::failed || row.status == PointStatus::diverged)
      row.error = end.said.empty() ? row.error : error_text(end.said);
    else
      row.error.clear();
    // Notes of a run that went well, such as of a GPU that it could not take.
    if (row.status == PointStatus::done && !end.said.empty() && end.said != notes_) {
      notes_ = end.said;
      observer_.said(end.said);
    }
    // A run that was refused has begun nothing there.
    if (!options_.keep_checkpoints && events.started()) {
      std::error_code ignored;
      std::filesystem::remove_all(folder_.point_path(point.name) + "/checkpoints", ignored);
    }
    return row;
  }

  const SweepOptions& options_;
  const Interruption& interruption_;
  SweepObserver& observer_;
  std::vector<SweepPoint> points_;
  PointPlanner planner_;
  SweepHeader header_;
  SweepFolder folder_;
  std::vector<SweptKey> keys_;
  MemoryStop stop_;
  int first_failure_ = 0;
  std::string told_, notes_;
};

}  // namespace

ExitCode run_sweep(const SweepOptions& options, const SweepGrid& grid, const DeviceSource& devices,
                   const Interruption& interruption, SweepObserver& observer,
                   const RatesProblemSink& on_rates_problem) {
  check_stop(options, grid.keys().front());
  for (const SweepPoint& point : grid.points()) load_experiment(options.config_path, point.overrides);
  return Sweep(options, grid, devices, interruption, observer, on_rates_problem).run();
}

}  // namespace trainer
