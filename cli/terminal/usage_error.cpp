#include "cli/terminal/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "engine/config/text/nearest_word.h"

namespace trainer {
namespace {

std::string join(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

/// The innermost command that was named.
const CLI::App& named_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

/// "trainer config show"
std::string full_name(const CLI::App& command) {
  std::string name = command.get_name();
  for (const CLI::App* parent = command.get_parent(); parent != nullptr; parent = parent->get_parent())
    name = parent->get_name() + ' ' + name;
  return name;
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<std::string> names_of_commands(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(subcommand->get_name());
  return names;
}

std::string unknown(const char* what, const std::string& word, const std::vector<std::string>& candidates) {
  std::string message = fmt::format("unknown {} '{}'", what, word);
  const std::string_view suggestion = nearest(word, candidates);
  if (!suggestion.empty()) return message + fmt::format("; did you mean '{}'?", suggestion);
  return message + fmt::format("; there are: {}", join(candidates, ", "));
}

}  // namespace

std::string unknown_command_message(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const std::vector<std::string> names = names_of_commands(*command);
    if (names.empty() || word.empty() || word.front() == '-') return "";
    if (std::find(names.begin(), names.end(), word) == names.end())
      return unknown("command", word, names) + fmt::format("\nSee '{} --help'.", full_name(*command));
    command = command->get_subcommand(word);
  }
  return "";
}

std::string empty_value_message(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      return fmt::format("the value behind {} is empty", word.substr(0, word.size() - 1));
    if (!word.empty()) continue;
    const bool is_behind_flag = i > 0 && words[i - 1].starts_with('-');
    return is_behind_flag ? fmt::format("the value behind {} is empty", words[i - 1]) : "an argument is empty";
  }
  return "";
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = named_command(app);
  std::string message = error.what();
  // A mistyped flag also leaves what it stood for missing, so it comes first.
  const std::vector<std::string> left_over = app.remaining(true);
  const auto flag = std::find_if(left_over.begin(), left_over.end(),
                                 [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
  if (flag != left_over.end()) {
    message = unknown("flag", flag->substr(0, flag->find('=')), flags_of(command));
  } else if (!left_over.empty()) {
    message = fmt::format("unexpected argument '{}'", left_over.front());
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    message = names_of_commands(command).empty()
                  ? fmt::format("{} is missing", message.substr(0, message.find(' ')))
                  : fmt::format("a command is missing; there are: {}", join(names_of_commands(command), ", "));
  } else if (!message.empty() && message.back() == '\n') {
    message.pop_back();
  }
  return message + fmt::format("\nSee '{} --help'.", full_name(command));
}

}  // namespace trainer
