#include "engine/config/yaml/source_set.h"

#include <algorithm>

namespace trainer {
namespace {

/// So that a hostile file cannot grow its own error, nor the time to find the nearest words, without bound.
constexpr std::size_t most_mistakes = 200;
constexpr std::size_t most_reports = 5'000;
constexpr std::size_t most_line_bytes = std::size_t{8} << 20;

}  // namespace

int SourceSet::add_file(std::string name, std::string text) {
  Source source{std::move(name), std::move(text), {0}, false};
  for (std::size_t i = 0; i < source.text.size(); ++i) {
    if (source.text[i] == '\n') source.line_offsets.push_back(i + 1);
  }
  sources_.push_back(std::move(source));
  return static_cast<int>(sources_.size()) - 1;
}

int SourceSet::add_argument(const std::string& text) {
  sources_.push_back({text, text, {0}, true});
  return static_cast<int>(sources_.size()) - 1;
}

std::string_view SourceSet::line(int source, int number) const {
  const Source& from = sources_[static_cast<std::size_t>(source)];
  const auto index = static_cast<std::size_t>(number - 1);
  if (number < 1 || index >= from.line_offsets.size()) return {};
  const std::size_t begin = from.line_offsets[index];
  const std::size_t end = index + 1 < from.line_offsets.size() ? from.line_offsets[index + 1] - 1 : from.text.size();
  std::string_view line = std::string_view(from.text).substr(begin, end - begin);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

SourceLocation SourceSet::location(const Mark& mark) const {
  const Source& from = sources_[static_cast<std::size_t>(mark.source)];
  return {from.name, from.is_argument ? 0 : mark.line, mark.column, mark.length,
          mark.use == 0 ? nullptr : uses_[static_cast<std::size_t>(mark.use - 1)]};
}

int SourceSet::add_use(const Mark& mark) {
  use_marks_.push_back(mark);
  uses_.push_back(std::make_shared<const SourceLocation>(location(mark)));
  return static_cast<int>(uses_.size());
}

void SourceSet::report(const Mark& mark, std::string message, std::string expectation, std::string suggestion) {
  if (++num_reported_ > most_reports) throw error();
  if (!told_.insert({mark.source, mark.line, mark.column, message}).second) return;
  const auto shown_line = [&](int source, int number) {
    std::string_view shown = line(source, number);
    if (num_line_bytes_ + shown.size() > most_line_bytes) shown = {};
    num_line_bytes_ += shown.size();
    return std::string(shown);
  };
  Diagnostic diagnostic{location(mark), std::move(message), std::move(expectation), std::move(suggestion),
                        shown_line(mark.source, mark.line)};
  for (int use = mark.use; use != 0;) {
    const Mark& at = use_marks_[static_cast<std::size_t>(use - 1)];
    diagnostic.use_lines.push_back(shown_line(at.source, at.line));
    use = at.use;
  }
  mistakes_.push_back({mark.source, std::move(diagnostic)});
  if (mistakes_.size() < most_mistakes) return;
  const ConfigError all = error();
  throw ConfigError(std::string(all.what()) + ", where reading stopped", all.diagnostics());
}

ConfigError SourceSet::error() const {
  std::vector<Mistake> ordered = mistakes_;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Mistake& a, const Mistake& b) { return a.source < b.source; });
  std::vector<Diagnostic> diagnostics;
  diagnostics.reserve(ordered.size());
  for (Mistake& mistake : ordered) diagnostics.push_back(std::move(mistake.diagnostic));
  return config_error(std::move(diagnostics));
}

void SourceSet::throw_mistakes() const {
  if (!mistakes_.empty()) throw error();
}

}  // namespace trainer
