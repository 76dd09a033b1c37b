#include "engine/config/diagnostic.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

constexpr std::size_t widest_line = 100;
constexpr std::streamsize longest_file_bytes = std::streamsize{1} << 20;

/// Byte offset of a 0-based code point.
std::size_t byte_offset(std::string_view text, std::size_t column) {
  std::size_t offset = 0;
  for (; offset < text.size(); ++offset) {
    const bool starts = (static_cast<unsigned char>(text[offset]) & 0xC0U) != 0x80U;
    if (starts && column-- == 0) break;
  }
  return offset;
}

/// The part of a line that is shown, and where the caret stands in it (0-based code points).
struct Excerpt {
  std::string text;
  std::size_t column = 0;
};

Excerpt excerpt(std::string_view line, std::size_t column) {
  const std::string shown = printable(line);
  const std::size_t width = num_code_points(shown);
  column = std::min(column, width);
  if (width <= widest_line) return {shown, column};
  const std::size_t first = column > widest_line / 2 ? column - widest_line / 2 : 0;
  const std::size_t begin = byte_offset(shown, first);
  const std::size_t end = byte_offset(shown, first + widest_line);
  Excerpt result{shown.substr(begin, end - begin), column - first};
  if (first > 0) {
    result.text = "…" + result.text;
    result.column += 1;
  }
  if (end < shown.size()) result.text += "…";
  return result;
}

/// A line with a caret below it, each after a newline; nothing of an empty line.
std::string pointed_line(const SourceLocation& location, const std::string& source_line) {
  if (source_line.empty()) return "";
  const std::string number = location.line == 0 ? "" : fmt::format("{:>3} ", location.line);
  const auto [line, column] = excerpt(source_line, static_cast<std::size_t>(location.column - 1));
  const std::size_t room = num_code_points(line) > column ? num_code_points(line) - column : 1;
  const std::size_t length = std::clamp<std::size_t>(static_cast<std::size_t>(location.length), 1, room);
  return fmt::format("\n  {}| {}\n  {:{}}| {:{}}^{}", number, line, "", number.size(), "", column,
                     std::string(length - 1, '~'));
}

/// What used the place, from the inside out; of many the first and the last.
std::string uses_of(const Diagnostic& diagnostic) {
  constexpr std::size_t most_told = 4;
  std::vector<const SourceLocation*> uses;
  for (auto use = diagnostic.location.used_at.get(); use != nullptr; use = use->used_at.get()) uses.push_back(use);
  std::string text;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses.size() > most_told && i + 1 == most_told) {
      text += fmt::format("\n  and so on, {} more", uses.size() - most_told);
      i = uses.size() - 1;
    }
    const SourceLocation& use = *uses[i];
    text += "\n  used here: ";
    text += use.line == 0 ? fmt::format("argument '{}'", shortened(use.file))
                          : fmt::format("{}:{}:{}", use.file, use.line, use.column);
    if (i < diagnostic.use_lines.size()) text += pointed_line(use, diagnostic.use_lines[i]);
  }
  return text;
}

std::string line_of_file(const std::string& file, int line) {
  std::ifstream stream(file);
  std::string text;
  for (int number = 0; number < line; ++number) {
    if (!std::getline(stream, text) || stream.tellg() > longest_file_bytes) return {};
  }
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

}  // namespace

std::string render(const Diagnostic& diagnostic) {
  const SourceLocation& location = diagnostic.location;
  const bool is_argument = location.line == 0;
  std::string text;
  if (is_argument) {
    text = location.file.empty() ? "error: " : fmt::format("argument '{}': error: ", shortened(location.file));
  } else {
    text = fmt::format("{}:{}:{}: error: ", location.file, location.line, location.column);
  }
  text += diagnostic.message;
  text += pointed_line(location, diagnostic.source_line);
  if (!diagnostic.expectation.empty()) text += "\n  expected: " + diagnostic.expectation;
  if (!diagnostic.suggestion.empty()) text += "\n  did you mean '" + diagnostic.suggestion + "'?";
  return text + uses_of(diagnostic);
}

std::string located_text(const SourceLocation& location, std::string_view message) {
  if (location.file.empty()) return std::string(message);
  if (location.line == 0) return fmt::format("argument '{}': {}", shortened(location.file), message);
  return fmt::format("{}:{}:{}: {}", location.file, location.line, location.column, message);
}

ConfigError config_error(std::vector<Diagnostic> diagnostics, std::size_t most_shown) {
  std::vector<std::string> files;
  for (const Diagnostic& diagnostic : diagnostics) {
    const std::string& file = diagnostic.location.file;
    if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  }
  const auto place = [&](const Diagnostic& diagnostic) {
    const SourceLocation& at = diagnostic.location;
    const auto file = std::find(files.begin(), files.end(), at.file) - files.begin();
    return std::tuple(at.line == 0, file, at.line, at.column);
  };
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return place(a) < place(b); });
  std::string text;
  const std::size_t shown = std::min(most_shown, diagnostics.size());
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += '\n';
    text += render(diagnostics[i]);
  }
  const std::size_t rest = diagnostics.size() - shown;
  if (rest > 0) text += fmt::format("\nand {} more error{}", rest, rest == 1 ? "" : "s");
  return ConfigError(text, std::move(diagnostics));
}

ConfigError located_error(const SourceLocation& location, std::string_view message, std::string_view expectation,
                          std::string_view suggestion) {
  const auto line_at = [](const SourceLocation& at) { return at.line == 0 ? at.file : line_of_file(at.file, at.line); };
  Diagnostic diagnostic{location, std::string(message), std::string(expectation), std::string(suggestion),
                        line_at(location)};
  for (auto use = location.used_at.get(); use != nullptr; use = use->used_at.get())
    diagnostic.use_lines.push_back(line_at(*use));
  return config_error({std::move(diagnostic)});
}

}  // namespace trainer
