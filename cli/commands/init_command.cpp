#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "engine/config/yaml/templates.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

struct InitArguments {
  std::string name, path;
  bool overwrite = false;
};

std::string list_of_templates() {
  std::string text = "Templates:\n";
  for (const ConfigTemplate& one : config_templates()) text += fmt::format("  {:<14} {}\n", one.name, one.help);
  return text;
}

ExitCode init(const InitArguments& arguments) {
  if (arguments.name.empty()) {
    write_text(stdout, list_of_templates() + "\nStart from one:\n" +
                           pasted_command({"init", std::string(config_templates().front().name)}, style_for(stdout)));
    return ExitCode::done;
  }
  const ConfigTemplate& chosen = config_template(arguments.name);
  if (arguments.path == "-") {
    write_exactly(stdout, chosen.text);
    return ExitCode::done;
  }
  const std::string path = arguments.path.empty() ? fmt::format("{}.yaml", chosen.name) : arguments.path;
  if (arguments.overwrite)
    write_file_durably(path, chosen.text);
  else if (!write_new_file_durably(path, chosen.text))
    throw DataError(fmt::format("{} exists; name another file, or replace it with --overwrite", path));
  const Style style = style_for(stdout);
  write_text(stdout, fmt::format("Wrote {}. Next:\n{}{}", path, pasted_command({"check", path}, style),
                                 pasted_command({"run", path}, style)));
  return ExitCode::done;
}

}  // namespace

void add_init_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<InitArguments>();
  CLI::App* command = app.add_subcommand("init", "Write a commented configuration to start from");
  command->add_option("TEMPLATE", arguments->name, "What to start from; without it the templates are listed")
      ->type_name("");
  command->add_option("PATH", arguments->path, "The file to write, '-' to print; TEMPLATE.yaml if not given")
      ->type_name("");
  command->add_flag("--overwrite", arguments->overwrite, "Replace the file where it exists");
  command->footer(examples({"init cnn my_network.yaml"}));
  command->callback([arguments, &action] { action = [arguments] { return init(*arguments); }; });
}

}  // namespace trainer
