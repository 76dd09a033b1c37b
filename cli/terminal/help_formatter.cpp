#include "cli/terminal/help_formatter.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

#include "engine/report/text/style.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

constexpr std::size_t help_width = 80, name_columns = 26;

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(name_columns);
    label("Positionals", "Arguments");
    label("OPTIONS", "FLAGS");
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_description(const CLI::App* app) const override {
    return wrap_lines(app->get_description(), help_width) + "\n\n";
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(Formatter::make_option_desc(option), help_width - name_columns);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(), wrap(command->get_description(), help_width - name_columns),
                             name_columns);
    return out.str();
  }

  /// Without the value that a flag stands for where it has none: "--resume{newest}".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }

  /// The name of the value, without the rules that check it.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (!option->get_option_text().empty()) return option->get_option_text();
    if (option->get_type_size() == 0 || option->get_positional()) return "";
    const std::string type = option->get_type_name();
    return type.empty() ? "" : " " + type.substr(0, type.find(':'));
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> make_help_formatter() { return std::make_shared<HelpFormatter>(); }

std::string examples(const std::vector<std::string>& commands) {
  std::string text = commands.size() == 1 ? "Example:" : "Examples:";
  for (const std::string& command : commands) {
    text += "\n  ";
    for (const char c : wrap(trainer_command(command), help_width - 6))
      text += c == '\n' ? std::string(" \\\n    ") : std::string(1, c);
  }
  return text;
}

}  // namespace trainer
