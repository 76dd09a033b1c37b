#include "cli/terminal/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "engine/config/config_reference.h"
#include "engine/config/text/absent_feature.h"
#include "engine/config/text/nearest_word.h"
#include "engine/report/text/shell_words.h"
#include "engine/trainer_command.h"

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

/// What other programs call a command, and what does it here.
struct OtherCommand {
  std::string_view word, instead;
};
constexpr std::array other_commands = {
    OtherCommand{"train", "run CONFIG"},
    OtherCommand{"start", "run CONFIG"},
    OtherCommand{"resume", "run CONFIG --resume"},
    OtherCommand{"continue", "run CONFIG --resume"},
    OtherCommand{"eval", "run CONFIG --weights FILE train.steps=0"},
    OtherCommand{"evaluate", "run CONFIG --weights FILE train.steps=0"},
    OtherCommand{"test", "run CONFIG --weights FILE train.steps=0"},
    OtherCommand{"infer", "predict RUN INPUT"},
    OtherCommand{"inference", "predict RUN INPUT"},
    OtherCommand{"classify", "predict RUN INPUT"},
    OtherCommand{"validate", "check CONFIG"},
    OtherCommand{"estimate", "plan CONFIG"},
    OtherCommand{"memory", "plan CONFIG"},
    OtherCommand{"profile", "bench CONFIG"},
    OtherCommand{"benchmark", "bench"},
    OtherCommand{"tune", "sweep CONFIG optimizer.lr=0.001,0.01"},
    OtherCommand{"lr_find", "sweep CONFIG optimizer.lr=0.001,0.003,0.01 train.steps=100"},
    OtherCommand{"info", "doctor"},
    OtherCommand{"devices", "doctor"},
    OtherCommand{"new", "init TEMPLATE"},
    OtherCommand{"create", "init TEMPLATE"},
    OtherCommand{"convert", "export RUN -o FILE"},
    OtherCommand{"save", "export RUN -o FILE"},
    OtherCommand{"explain", "config explain KEY"},
    OtherCommand{"schema", "config schema"},
};
constexpr std::array absent_commands = {std::string_view("serve"), std::string_view("deploy")};

std::string unknown_command(const std::string& word, const std::vector<std::string>& names) {
  const std::string message = fmt::format("unknown command '{}'; ", word);
  for (const OtherCommand& other : other_commands)
    if (other.word == word) return message + fmt::format("that is '{}'", trainer_command(other.instead));
  if (std::find(absent_commands.begin(), absent_commands.end(), word) != absent_commands.end())
    return message + "trainer does not do this yet; it predicts from files: " + trainer_command("predict RUN INPUT");
  return unknown("command", word, names);
}

/// The setting that a flag stands for where other programs have one: "train.batch_size=32" for "--batch-size=32"; ""
/// where there is none. `words` are those of the command line.
std::string setting_of(const std::string& flag, const std::vector<std::string>& words) {
  std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::string value = "VALUE";
  if (const std::size_t equals = name.find('='); equals != std::string::npos) {
    value = name.substr(equals + 1);
    name.erase(equals);
  } else if (const auto at = std::find(words.begin(), words.end(), flag); at != words.end() && at + 1 != words.end()) {
    if (!(at + 1)->starts_with('-')) value = *(at + 1);
  }
  std::replace(name.begin(), name.end(), '-', '_');
  // As `trainer run` has it; of the keys alone, another is called so.
  const std::string key = name == "weights" ? "weights.file" : key_called(name);
  return key.empty() ? "" : shell_words({key + '=' + value});
}

std::string unknown_flag(const std::string& flag, const std::vector<std::string>& words, const CLI::App& command) {
  const std::string name = flag.substr(0, flag.find('='));
  if (name == "--config" || name == "--cfg")
    return fmt::format("unknown flag '{}'; CONFIG is given without a flag", name);
  if (name == "--ranks")
    return fmt::format(
        "unknown flag '{}'; '{}' runs as one process: several train by 'run', and are planned by 'plan' and 'fit'",
        name, command.get_name());
  if (const std::string setting = setting_of(flag, words); !setting.empty())
    return fmt::format("unknown flag '{}'; settings are written without dashes: {}", name, setting);
  std::string word = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::replace(word.begin(), word.end(), '-', '_');
  if (const std::string_view instead = absent_feature(word); !instead.empty())
    return fmt::format("unknown flag '{}': {}", name, instead);
  return unknown("flag", name, flags_of(command));
}

}  // namespace

std::string unknown_command_message(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const std::vector<std::string> names = names_of_commands(*command);
    if (names.empty() || word.empty() || word.front() == '-') return "";
    if (std::find(names.begin(), names.end(), word) == names.end())
      return (command == &app ? unknown_command(word, names) : unknown("command", word, names)) +
             fmt::format("\nSee '{} --help'.", full_name(*command));
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

std::string usage_message(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const CLI::App& command = named_command(app);
  std::string message = error.what();
  // A mistyped flag also leaves what it stood for missing, so it comes first.
  const std::vector<std::string> left_over = app.remaining(true);
  const auto flag = std::find_if(left_over.begin(), left_over.end(),
                                 [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
  if (flag != left_over.end()) {
    message = unknown_flag(*flag, words, command);
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
