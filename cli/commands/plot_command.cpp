#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/output_file.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"
#include "engine/report/compare/run_comparison.h"
#include "engine/report/plot/run_picture.h"
#include "engine/train/files/replaced_file.h"

namespace trainer {
namespace {

struct PlotArguments {
  std::vector<std::string> runs;
  RunPictureOptions options;
  std::string of, svg;
  bool overwrite = false, quiet = false;
};

/// "loss,lr". Throws ConfigError where there is no such panel, or twice the same.
std::vector<std::string> panels_of(const std::string& list) {
  const std::vector<std::string>& names = panel_names();
  std::vector<std::string> panels;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string_view near = nearest(name, names);
      throw ConfigError(fmt::format("--of: nothing is called '{}'; {}", shortened(name),
                                    near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                                 : fmt::format("did you mean '{}'?", near)));
    }
    if (std::find(panels.begin(), panels.end(), name) != panels.end())
      throw ConfigError(fmt::format("--of: '{}' stands there twice", name));
    panels.push_back(name);
  }
  return panels;
}

ExitCode plot(const PlotArguments& arguments) {
  if (arguments.runs.size() > most_compared_runs)
    throw ConfigError(
        fmt::format("plot takes up to {} runs, and {} are named", most_compared_runs, arguments.runs.size()));
  RunPictureOptions options = arguments.options;
  if (!arguments.of.empty()) options.of = panels_of(arguments.of);
  refuse_existing(arguments.svg, arguments.overwrite);
  std::vector<RunRecord> records;
  std::vector<std::string> inputs;
  for (const std::string& path : arguments.runs) {
    records.push_back(read_run(path));
    inputs.push_back(records.back().path);
  }
  refuse_own_input(arguments.svg, inputs);
  const CurvePicture picture = run_picture(records, options);
  if (!arguments.svg.empty()) {
    const std::string text = picture_svg(picture);
    ReplacedFile file(arguments.svg);
    file.write(text.data(), text.size());
    file.finish();
  }
  if (arguments.quiet) return ExitCode::done;
  constexpr int usual_columns = 80;
  Style style = style_for(stdout);
  if (!is_terminal(stdout)) style.width = usual_columns;
  write_text(stdout, picture_text(picture, style));
  if (!arguments.svg.empty()) write_text(stdout, fmt::format("\nWrote {}\n", arguments.svg));
  return ExitCode::done;
}

}  // namespace

void add_plot_command(CLI::App& app, Action& action) {
  static const std::map<std::string, RunAxis> axes = {
      {"step", RunAxis::step}, {"time", RunAxis::time}, {"epoch", RunAxis::epoch}};
  auto arguments = std::make_shared<PlotArguments>();
  CLI::App* command = app.add_subcommand("plot", "Draw loss, learning rate, memory and speed of runs");
  command->add_option("RUN", arguments->runs, "Folders of runs or ranks, whose curves share each panel")
      ->required()
      ->type_name("...");
  command
      ->add_option("--of", arguments->of,
                   "What to draw; loss,lr,memory,speed if not given. Also accuracy, and what else evaluations tell")
      ->type_name("LIST");
  command
      ->add_option_function<std::string>(
          "--x", [arguments](const std::string& name) { arguments->options.axis = axes.at(name); },
          "Over what: step (if not given), time or epoch")
      ->type_name("AXIS")
      ->check([](const std::string& name) {
        return axes.count(name) > 0 ? "" : fmt::format("'{}' is not step, time or epoch", shortened(name));
      });
  command->add_flag("--log", arguments->options.logarithmic,
                    "Losses, learning rates and what is better lower on a logarithmic axis");
  command->add_option("--svg", arguments->svg, "Write a picture in SVG, too")->type_name("FILE");
  command->add_flag("--overwrite", arguments->overwrite, "Replace that picture where it exists");
  command->add_flag("-q,--quiet", arguments->quiet, "Draw nothing on the terminal");
  command->footer(
      "Runs are named by the keys of their configurations that differ. Long ones are\nthinned, but for the lowest and "
      "highest values.\n\n" +
      examples({"plot runs/a", "plot runs/a runs/b --of loss,accuracy --x time --svg curves.svg"}));
  command->callback([arguments, &action] { action = [arguments] { return plot(*arguments); }; });
}

}  // namespace trainer
