#pragma once

#include <memory>
#include <string>

namespace trainer {

/// Where a value was written: a file and 1-based line and column, or a command-line argument (then `file` is the
/// argument's text and line is 0). Kept in the experiment so that later stages can point at the YAML.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
  int length = 1;  ///< width of the caret span
  /// Of a place in a block or in a model's file: where that is used, which may itself be used; else null.
  std::shared_ptr<const SourceLocation> used_at = nullptr;

  friend bool operator==(const SourceLocation& a, const SourceLocation& b) {
    const bool same_use =
        a.used_at == nullptr || b.used_at == nullptr ? a.used_at == b.used_at : *a.used_at == *b.used_at;
    return same_use && a.file == b.file && a.line == b.line && a.column == b.column && a.length == b.length;
  }
};

}  // namespace trainer
