#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/errors.h"
#include "engine/source_location.h"

namespace trainer {

/// The diagnostic as text without a newline at its end:
///
///     mnist.yaml:3:3: error: unknown key 'batch_sise' in 'train'
///       3 |   batch_sise: 64
///         |   ^~~~~~~~~~
///       expected: one of batch_size, epochs, …
///       did you mean 'batch_size'?
///
/// Where the place stands in a block or a model's file, what uses it follows, with its line, from the inside out:
///
///       used here: mnist.yaml:5:7
///       5 |     - bottleneck: {width: 64}
///         |       ^~~~~~~~~~
///
/// A location with line 0 is a command-line argument and starts with "argument 'train.batch_sise=64': error: …".
/// A long line is cut to a window around the caret.
std::string render(const Diagnostic& diagnostic);

/// "mnist.yaml:3:3: message"; of a command-line argument "argument 'train.batch_size=64': message"; without a place the
/// message alone. For what is told of a run that goes on.
std::string located_text(const SourceLocation& location, std::string_view message);

/// All mistakes as one error: sorted by file (in order of appearance), line and column, arguments last; at most
/// `most_shown` are written out and the rest counted.
ConfigError config_error(std::vector<Diagnostic> diagnostics, std::size_t most_shown = 20);

/// An error of a later stage that points at the configuration. Reads the line from `location.file`; where the file
/// cannot be read any more the text goes without it.
ConfigError located_error(const SourceLocation& location, std::string_view message, std::string_view expectation = "",
                          std::string_view suggestion = "");

}  // namespace trainer
