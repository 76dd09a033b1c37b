#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace trainer {

/// How --help looks: a line of description, the usage, arguments and flags with the names of their values, commands.
std::shared_ptr<CLI::FormatterBase> make_help_formatter();

}  // namespace trainer
