#pragma once

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class FormatterBase;
}

namespace trainer {

/// How --help looks: a line of description, the usage, arguments and flags with the names of their values, commands.
std::shared_ptr<CLI::FormatterBase> make_help_formatter();

/// The end of a command's --help: what to paste, given without the word that calls trainer.
std::string examples(const std::vector<std::string>& commands);

}  // namespace trainer
