#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "engine/config/text/utf8_text.h"
#include "engine/report/compare/run_comparison.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

constexpr std::size_t figure_label_columns = 24, figure_columns = 12, reference_columns = 14, percent_columns = 12;
constexpr std::size_t longest_key = 40;

/// How many runs behind the first have columns beside it.
std::size_t num_beside(const Style& style, std::size_t num_runs) {
  const auto width = static_cast<std::size_t>(std::max(style.width, 60));
  const std::size_t room = width - figure_label_columns - reference_columns;
  return std::clamp<std::size_t>(room / (figure_columns + percent_columns), 1, num_runs - 1);
}

class ComparisonTables {
 public:
  ComparisonTables(const RunComparison& comparison, const Style& style) : comparison_(comparison), style_(style) {}

  std::string runs() const {
    TextTable table({{"", Align::left}, {"", Align::left, Narrow::gives_way}, {"", Align::left}, {"", Align::left}});
    for (std::size_t i = 0; i < comparison_.runs.size(); ++i) {
      const ComparedRun& run = comparison_.runs[i];
      const std::string what = run.is_plan ? "plan: " + run.status : run.status;
      table.add_row({run_letter(i), shortened(run.path, 200), shortened(run.name, 24), shortened(what, 24)});
    }
    return table.render(style_, 0);
  }

  /// Keys that differ, and what they are in each run.
  std::string config() const {
    std::vector<const ConfigDifference*> shown;
    std::vector<std::string> names;
    for (const ConfigDifference& difference : comparison_.config) {
      if (difference.is_name)
        names.push_back(difference.key);
      else
        shown.push_back(&difference);
    }
    const auto num_configs = std::count_if(comparison_.runs.begin(), comparison_.runs.end(),
                                           [](const ComparedRun& run) { return run.config.has_value(); });
    if (num_configs < 2) return "";
    const auto width = static_cast<std::size_t>(style_.width);
    std::string text = heading(style_, "Configuration");
    const std::string named = names.empty() ? "" : fmt::format(" ({} aside)", fmt::join(names, ", "));
    if (shown.empty()) return text + sentence(fmt::format("the same{}", named));
    const std::size_t beside =
        std::clamp<std::size_t>((width - figure_label_columns) / (figure_columns + 6), 2, comparison_.runs.size()) - 1;
    for (const std::vector<std::size_t>& columns : column_groups(beside)) {
      std::vector<TextTable::Column> titles = {{"key", Align::left, Narrow::gives_way}};
      for (const std::size_t run : columns) titles.push_back({run_letter(run), Align::left});
      TextTable table(std::move(titles));
      const std::size_t room = (width - 2 - longest_key / 2) / columns.size();
      for (const ConfigDifference* difference : shown) {
        // Another group of columns has what differs.
        if (std::all_of(columns.begin(), columns.end(),
                        [&](std::size_t run) { return difference->texts[run] == difference->texts.front(); }))
          continue;
        std::vector<std::string> cells = {shortened(difference->key, longest_key)};
        for (const std::size_t run : columns)
          cells.push_back(comparison_.runs[run].config ? shortened(difference->texts[run], room - 4) : "");
        table.add_row(std::move(cells));
      }
      text += table.render(style_);
    }
    if (!names.empty())
      text += sentence(fmt::format("What they are called or told by differs, too: {}.", fmt::join(names, ", ")));
    return text;
  }

  std::string figures() const {
    std::string text;
    for (const std::vector<std::size_t>& columns : column_groups(num_beside(style_, comparison_.runs.size()))) {
      std::vector<TextTable::Column> titles = {{"", Align::left, Narrow::gives_way}};
      for (const std::size_t run : columns) {
        titles.push_back({run_letter(run)});
        if (run == 0) continue;
        if (has_difference_column()) titles.push_back({"difference", Align::right, Narrow::is_left_out});
        titles.push_back({""});
      }
      TextTable table(std::move(titles));
      std::string_view group;
      for (const ComparedFigure& figure : comparison_.figures) {
        if (!is_told(figure, columns) || is_unused_category(figure)) continue;
        if (group != figure.kind->group) {
          if (!group.empty()) table.add_rule();
          group = figure.kind->group;
        }
        table.add_row(row_of(figure, columns));
      }
      text += '\n' + table.render(style_);
    }
    return text;
  }

  /// What the runs ran on.
  std::string machine() const {
    std::string text = "\n";
    const auto tell = [&](const std::string& what, const auto& text_of) {
      std::set<std::string> different;
      for (const ComparedRun& run : comparison_.runs)
        if (!text_of(run).empty()) different.insert(text_of(run));
      if (different.size() == 1) text += sentence(fmt::format("{}: {}", what, *different.begin()));
      for (std::size_t i = 0; different.size() > 1 && i < comparison_.runs.size(); ++i)
        if (const std::string told = text_of(comparison_.runs[i]); !told.empty())
          text += sentence(fmt::format("{} of {}: {}", what, run_letter(i), told));
    };
    const auto room = static_cast<std::size_t>(style_.width) - figure_label_columns;
    tell("Device", [&](const ComparedRun& run) {
      return fmt::format("{} ({})", shortened(run.device_kind, 8), shortened(run.device_name, room));
    });
    tell("trainer", [&](const ComparedRun& run) { return shortened(run.version, room); });
    return text;
  }

  std::string checks() const {
    if (comparison_.checks.empty()) return "";
    TextTable table({{"check", Align::left}, {"tolerance", Align::left}, {"run", Align::left}, {"", Align::left}});
    for (const CheckResult& result : comparison_.checks)
      table.add_row({result.key, shortened(result.tolerance, 24), run_letter(result.run),
                     result.passed ? paint(style_, Ink::green, "✓") : paint(style_, Ink::red, "✗ failed")});
    return '\n' + table.render(style_);
  }

 private:
  std::string sentence(const std::string& text) const {
    return "  " + wrap(text, static_cast<std::size_t>(style_.width) - 2, "  ") + '\n';
  }

  bool has_difference_column() const { return comparison_.runs.size() == 2; }

  /// The first run and some of the others, so that each of them is in one group.
  std::vector<std::vector<std::size_t>> column_groups(std::size_t most_beside) const {
    std::vector<std::vector<std::size_t>> groups;
    for (std::size_t begin = 1; begin < comparison_.runs.size(); begin += most_beside) {
      groups.push_back({0});
      for (std::size_t run = begin; run < std::min(begin + most_beside, comparison_.runs.size()); ++run)
        groups.back().push_back(run);
    }
    return groups;
  }

  /// Whether a run has it, beside a plan both: a plan lacks most figures.
  bool is_told(const ComparedFigure& figure, const std::vector<std::size_t>& columns) const {
    const auto num_known =
        std::count_if(columns.begin(), columns.end(), [&](std::size_t run) { return figure.values[run].has_value(); });
    const bool has_plan =
        std::any_of(columns.begin(), columns.end(), [&](std::size_t run) { return comparison_.runs[run].is_plan; });
    return num_known > (has_plan ? 1 : 0);
  }

  /// A category that no run has anything of.
  static bool is_unused_category(const ComparedFigure& figure) {
    return figure.kind->label.starts_with("·") &&
           std::all_of(figure.values.begin(), figure.values.end(),
                       [](const std::optional<double>& value) { return value.value_or(0) == 0; });
  }

  std::vector<std::string> row_of(const ComparedFigure& figure, const std::vector<std::size_t>& columns) const {
    const FigureUnit unit = figure.kind->unit;
    const std::optional<double>& reference = figure.values.front();
    std::vector<std::string> cells = {std::string(figure.kind->label)};
    for (const std::size_t run : columns) {
      const std::optional<double>& value = figure.values[run];
      cells.push_back(value ? figure_text(unit, *value) : "-");
      if (run == 0) continue;
      const bool has_both = reference && value;
      if (has_difference_column()) cells.push_back(has_both ? difference_text(unit, *value - *reference) : "");
      const std::string percent = has_both ? percent_text(*reference, *value) : "";
      cells.push_back(painted(figure, run, percent + mark_of(figure, run)));
    }
    return cells;
  }

  /// "✗" where a check of the figure failed, "✓" where all passed.
  std::string mark_of(const ComparedFigure& figure, std::size_t run) const {
    std::string mark;
    for (const CheckResult& result : comparison_.checks) {
      if (result.key != figure.kind->key || result.run != run) continue;
      if (!result.passed) return " ✗";
      mark = " ✓";
    }
    return mark;
  }

  /// Green where the run is better than the first, red where it is worse.
  std::string painted(const ComparedFigure& figure, std::size_t run, const std::string& text) const {
    const std::optional<double>& reference = figure.values.front();
    const std::optional<double>& value = figure.values[run];
    if (!reference || !value || *reference == *value || figure.kind->worse == WorseIf::neither) return text;
    const bool is_worse = !std::isfinite(*value) || (figure.kind->worse == WorseIf::more) == (*value > *reference);
    return paint(style_, is_worse ? Ink::red : Ink::green, text);
  }

  const RunComparison& comparison_;
  const Style& style_;
};

}  // namespace

std::string run_comparison_report(const RunComparison& comparison, const Style& style) {
  const ComparisonTables tables(comparison, style);
  return tables.runs() + tables.config() + tables.figures() + tables.machine() + tables.checks();
}

}  // namespace trainer
