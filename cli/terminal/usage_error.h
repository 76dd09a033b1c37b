#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace trainer {

/// Whether the first word names no command of `app`: "unknown command 'rnu'; did you mean 'run'?". Empty: it does.
std::string unknown_command_message(const CLI::App& app, const std::vector<std::string>& words);

/// Whether a word, or what stands behind the '=' of a flag, is empty, which is never what was meant, such as a variable
/// of a shell that is not set: "the value behind --weights is empty". Empty: none is.
std::string empty_value_message(const std::vector<std::string>& words);

/// What to tell for a command line of those words that CLI11 has refused: what is wrong, the setting or the nearest
/// flag that is meant, and where help is.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace trainer
