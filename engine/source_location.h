#pragma once

#include <string>

namespace trainer {

/// Where a value was written: a file and 1-based line and column, or a command-line argument (then `file` is the
/// argument's text and line is 0). Kept in the experiment so that later stages can point at the YAML.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
  int length = 1;  ///< width of the caret span

  friend bool operator==(const SourceLocation&, const SourceLocation&) = default;
};

}  // namespace trainer
