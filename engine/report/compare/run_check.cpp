#include "engine/report/compare/run_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <variant>

#include "engine/bytes.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"
#include "engine/report/compare/figure_kinds.h"
#include "engine/report/compare/run_comparison.h"

namespace trainer {
namespace {

constexpr std::array<std::string_view, 3> memory_peaks = {"memory.requested", "memory.allocated", "memory.reserved"};

bool is_memory(const std::string& key) {
  const FigureKind* const kind = figure_kind(key);
  return key == "memory" || (kind != nullptr && kind->unit == FigureUnit::bytes);
}

void refuse_unknown_key(const std::string& key) {
  if (key == "memory" || key == "speed" || key == "config" || figure_kind(key) != nullptr) return;
  std::vector<std::string> known = {"memory", "speed", "config"};
  for (const FigureKind& kind : figure_kinds()) known.emplace_back(kind.key);
  const std::string_view near = nearest(key, known);
  throw ConfigError(fmt::format("--check: nothing is called '{}'{}", shortened(key),
                                near.empty()
                                    ? "; memory, speed, loss, accuracy and config are, and what --json tells of figures"
                                    : fmt::format("; did you mean '{}'?", near)));
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// The tolerance of the check; nothing where the text is none.
std::optional<double> number_of_tolerance(std::string_view text, RunCheck& check) {
  if (text.ends_with('%')) {
    check.is_relative = true;
    text.remove_suffix(1);
  } else if (is_memory(check.key)) {
    const std::optional<std::int64_t> bytes = parse_bytes(text);
    return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
  }
  const std::variant<double, NumberMistake> number = read_number(text);
  if (!std::holds_alternative<double>(number) || std::get<double>(number) < 0) return std::nullopt;
  return std::get<double>(number) / (check.is_relative ? 100 : 1);
}

/// Whether a value is further from the reference than the check allows.
bool is_beyond(const RunCheck& check, WorseIf worse, double reference, double value) {
  if (!std::isfinite(value) || !std::isfinite(reference)) {
    if (std::isfinite(value) == std::isfinite(reference)) return false;
    return !std::isfinite(value) || check.is_two_sided;
  }
  double allowed = check.is_relative ? check.tolerance * std::abs(reference) : check.tolerance;
  // 0.51 less 0.5 is a little more than 0.01.
  if (allowed > 0)
    allowed += 4 * std::numeric_limits<double>::epsilon() * std::max(std::abs(reference), std::abs(value));
  const double difference = value - reference;
  if (check.is_two_sided || worse == WorseIf::neither) return std::abs(difference) > allowed;
  return (worse == WorseIf::more ? difference : -difference) > allowed;
}

class RunChecks {
 public:
  RunChecks(const std::vector<ComparedRun>& runs, const std::vector<ConfigDifference>& config)
      : runs_(runs), config_(config) {}

  std::vector<CheckResult> results(const std::vector<RunCheck>& checks) {
    for (const RunCheck& check : checks) {
      for (std::size_t run = 1; run < runs_.size(); ++run) {
        if (check.key == "config")
          check_config(check, run);
        else if (check.key == "memory")
          for (const std::string_view peak : memory_peaks) check_figure(check, peak, run);
        else if (check.key == "speed")
          check_figure(check, both_have("speed.tokens", run) ? "speed.tokens" : "speed.samples", run);
        else
          check_figure(check, check.key, run);
      }
    }
    return std::move(results_);
  }

 private:
  bool both_have(std::string_view key, std::size_t run) const {
    return runs_.front().figure(key) && runs_[run].figure(key);
  }

  double figure_of(std::size_t run, std::string_view key) const {
    const ComparedRun& compared = runs_[run];
    if (const std::optional<double> value = compared.figure(key)) return *value;
    throw DataError(fmt::format("--check {0}: {1}, '{2}', {3}", key, run_letter(run), compared.path,
                                compared.is_plan
                                    ? fmt::format("is a plan, which does not tell {}", key)
                                    : fmt::format("has no {}: it ended as '{}' after {:.0f} steps, and told none", key,
                                                  compared.status, compared.figure("steps").value_or(0))));
  }

  void check_figure(const RunCheck& check, std::string_view key, std::size_t run) {
    const FigureKind& kind = *figure_kind(key);
    const double reference = figure_of(0, key), value = figure_of(run, key);
    CheckResult result{.key = std::string(key),
                       .tolerance = check.tolerance_text(),
                       .run = run,
                       .passed = !is_beyond(check, kind.worse, reference, value),
                       .reference = reference,
                       .value = value,
                       .message = {}};
    if (!result.passed)
      result.message =
          fmt::format("{} of {} is {}, {}'s {}: {} ({}) is beyond {}", key, run_letter(run),
                      figure_text(kind.unit, value), run_letter(0), figure_text(kind.unit, reference),
                      difference_text(kind.unit, value - reference), percent_text(reference, value), check.text);
    results_.push_back(std::move(result));
  }

  void check_config(const RunCheck& check, std::size_t run) {
    for (const std::size_t i : {std::size_t{0}, run})
      if (!runs_[i].config)
        throw DataError(fmt::format("--check config: {}, '{}', is a plan, which has no configuration", run_letter(i),
                                    runs_[i].path));
    std::vector<std::string> keys;
    for (const ConfigDifference& difference : config_)
      if (!difference.is_name && difference.values.front() != difference.values[run]) keys.push_back(difference.key);
    CheckResult result{.key = "config",
                       .tolerance = check.tolerance_text(),
                       .run = run,
                       .passed = keys.empty(),
                       .reference = 0,
                       .value = static_cast<double>(keys.size()),
                       .message = {}};
    constexpr std::size_t most_named = 8;
    const std::size_t num_more = keys.size() - std::min(keys.size(), most_named);
    keys.resize(keys.size() - num_more);
    for (std::string& key : keys) key = shortened(key);
    if (!result.passed)
      result.message = fmt::format("the configuration of {} differs from {}'s in {}{}", run_letter(run), run_letter(0),
                                   fmt::join(keys, ", "), num_more > 0 ? fmt::format(" and {} more", num_more) : "");
    results_.push_back(std::move(result));
  }

  const std::vector<ComparedRun>& runs_;
  const std::vector<ConfigDifference>& config_;
  std::vector<CheckResult> results_;
};

}  // namespace

std::string RunCheck::tolerance_text() const { return text.substr(text.find('=') + 1); }

RunCheck parse_run_check(const std::string& text) {
  const std::size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0)
    throw ConfigError(fmt::format("--check: '{}' is not KEY=TOLERANCE, such as memory=1%", shortened(text)));
  RunCheck check{.text = text, .key = text.substr(0, equal)};
  refuse_unknown_key(check.key);
  std::string_view tolerance = std::string_view(text).substr(equal + 1);
  if (tolerance == "exact") {
    check.is_two_sided = true;
    return check;
  }
  if (check.key == "config" && tolerance != "0")
    throw ConfigError(
        fmt::format("--check config={}: keys differ or they do not: 0 or exact", shortened(std::string(tolerance))));
  check.is_two_sided = take_prefix(tolerance, "±") || take_prefix(tolerance, "+-");
  const std::optional<double> number = number_of_tolerance(tolerance, check);
  if (!number)
    throw ConfigError(
        fmt::format("--check {}: '{}' is no tolerance: a part such as 1%, {}, 0 or exact, behind ± for "
                    "both directions",
                    check.key, shortened(std::string(tolerance)),
                    is_memory(check.key) ? "a size such as 2MiB" : "a number such as 0.01"));
  check.tolerance = *number;
  return check;
}

std::vector<CheckResult> check_runs(const std::vector<ComparedRun>& runs, const std::vector<ConfigDifference>& config,
                                    const std::vector<RunCheck>& checks) {
  return RunChecks(runs, config).results(checks);
}

}  // namespace trainer
