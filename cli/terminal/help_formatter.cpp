#include "cli/terminal/help_formatter.h"

#include <CLI/CLI.hpp>
#include <string>

namespace trainer {
namespace {

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(26);
    label("Positionals", "Arguments");
    label("OPTIONS", "FLAGS");
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_description(const CLI::App* app) const override { return app->get_description() + "\n\n"; }

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

}  // namespace trainer
