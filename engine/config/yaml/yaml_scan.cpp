#include "engine/config/yaml/yaml_scan.h"

#include <fmt/format.h>

#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

/// One pass over the text, line by line, that knows just enough YAML to tell brackets and quotes that are syntax from
/// those that are text.
class Scanner {
 public:
  Scanner(SourceSet& sources, int source, std::string_view text, int skipped)
      : sources_(sources), source_(source), text_(text), skipped_(skipped) {}

  bool run() {
    if (!check_bytes()) return false;
    std::size_t begin = 0;
    while (begin <= text_.size()) {
      std::size_t end = text_.find('\n', begin);
      if (end == std::string_view::npos) end = text_.size();
      ++line_number_;
      line_ = text_.substr(begin, end - begin);
      if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
      if (!scan_line()) return false;
      begin = end + 1;
    }
    if (!open_.empty()) {
      return refuse(mark(open_.back()), fmt::format("'{}' is never closed", open_.back().bracket),
                    fmt::format("'{}' after the last element", closing(open_.back().bracket)));
    }
    return true;
  }

 private:
  /// Its mark is only worked out for a message: counting columns for each of many brackets in a line takes long.
  struct Open {
    char bracket;
    std::string_view line;
    int line_number;
    std::size_t offset;
  };

  static char closing(char bracket) { return bracket == '[' ? ']' : '}'; }

  Mark mark(std::size_t offset, std::size_t num_bytes = 1) const {
    return mark_in(line_, line_number_, offset, num_bytes);
  }
  Mark mark(const Open& open) const { return mark_in(open.line, open.line_number, open.offset, 1); }
  Mark mark_in(std::string_view line, int line_number, std::size_t offset, std::size_t num_bytes) const {
    // The value of an argument starts somewhere in its only line.
    const int shift = line_number == 1 ? skipped_ : 0;
    const auto column = static_cast<int>(num_code_points(line.substr(0, offset))) + 1;
    const auto length = static_cast<int>(num_code_points(line.substr(offset, num_bytes)));
    return {source_, line_number, column + shift, std::max(1, length)};
  }

  bool refuse(const Mark& at, std::string message, std::string expectation = "") {
    sources_.report(at, std::move(message), std::move(expectation));
    return false;
  }

  bool check_bytes() {
    const std::size_t bad = first_bad_byte(text_);
    if (bad == text_.size()) return true;
    const std::size_t line_begin = bad == 0 ? 0 : text_.rfind('\n', bad - 1) + 1;
    line_number_ = 1;
    for (std::size_t i = 0; i < line_begin; ++i) line_number_ += text_[i] == '\n' ? 1 : 0;
    line_ = text_.substr(line_begin, bad - line_begin);
    return refuse(mark(bad - line_begin),
                  fmt::format("byte 0x{:02x} at offset {} is not text", static_cast<unsigned char>(text_[bad]), bad),
                  "a YAML file in UTF-8");
  }

  bool scan_line() {
    std::size_t at = 0;
    while (at < line_.size() && is_blank(line_[at])) ++at;
    if (at == line_.size() || line_[at] == '#') return true;
    const std::size_t tab = line_.substr(0, at).find('\t');
    if (tab != std::string_view::npos) return refuse(mark(tab), "tab used as indentation", "spaces");
    if (open_.empty()) {
      if (line_[0] == '%') return refuse(mark(0), "YAML directives are not supported");
      const std::string_view first = line_.substr(0, 3);
      if ((first == "---" || first == "...") && (line_.size() == 3 || is_blank(line_[3]))) at = 3;
    }
    token_may_start_ = true;
    num_dashes_ = 0;
    while (at < line_.size()) {
      if (is_blank(line_[at])) {
        ++at;
      } else if (line_[at] == '#' && (at == 0 || is_blank(line_[at - 1]))) {
        return true;
      } else if (!scan_token(at)) {
        return false;
      }
    }
    return true;
  }

  bool ends_word(std::size_t at) const {
    if (at >= line_.size() || is_blank(line_[at])) return true;
    return !open_.empty() && std::string_view(",[]{}").find(line_[at]) != std::string_view::npos;
  }

  bool scan_token(std::size_t& at) {
    const char letter = line_[at];
    const bool in_flow = !open_.empty();
    if (in_flow && letter == ',') {
      token_may_start_ = true;
      ++at;
      return true;
    }
    if (letter == ':' && (ends_word(at + 1) || (in_flow && !token_may_start_))) {
      token_may_start_ = true;
      ++at;
      return true;
    }
    if ((letter == ']' || letter == '}') && (in_flow || token_may_start_)) return close_bracket(at);
    if (!token_may_start_) return scan_plain(at);
    if (letter == '[' || letter == '{') return open_bracket(at);
    if (letter == '"' || letter == '\'') return scan_quoted(at);
    if (letter == '&' || letter == '*' || letter == '!') {
      while (!ends_word(at)) ++at;
      return true;
    }
    if (!in_flow && letter == '-' && ends_word(at + 1)) {
      if (++num_dashes_ > deepest_nesting) return refuse_depth(mark(at));
      ++at;
      return true;
    }
    if (letter == '?' && ends_word(at + 1))
      return refuse(mark(at), "'? ' is not supported", "keys that are plain words");
    if (!in_flow && (letter == '|' || letter == '>')) {
      return refuse(mark(at), "text over several lines is not supported", "the value on one line");
    }
    return scan_plain(at);
  }

  bool open_bracket(std::size_t& at) {
    open_.push_back({line_[at], line_, line_number_, at});
    if (static_cast<int>(open_.size()) > deepest_nesting) return refuse_depth(mark(at));
    token_may_start_ = true;
    ++at;
    return true;
  }

  bool close_bracket(std::size_t& at) {
    const char bracket = line_[at];
    if (open_.empty()) return refuse(mark(at), fmt::format("'{}' closes nothing", bracket));
    const Open last = open_.back();
    if (closing(last.bracket) != bracket) {
      return refuse(mark(at),
                    fmt::format("'{}' cannot close the '{}' of line {}, column {}", bracket, last.bracket,
                                last.line_number, mark(last).column),
                    fmt::format("'{}'", closing(last.bracket)));
    }
    open_.pop_back();
    token_may_start_ = false;
    ++at;
    return true;
  }

  bool scan_quoted(std::size_t& at) {
    const std::size_t begin = at;
    const char quote = line_[at];
    for (++at; at < line_.size(); ++at) {
      if (quote == '"' && line_[at] == '\\') {
        ++at;
      } else if (line_[at] == quote) {
        if (quote == '\'' && at + 1 < line_.size() && line_[at + 1] == quote) {
          ++at;
        } else {
          ++at;
          token_may_start_ = false;
          return true;
        }
      }
    }
    return refuse(mark(begin), fmt::format("the quote {} is not closed on its line", quote),
                  fmt::format("{} after the text", quote));
  }

  /// Unquoted text: to ": ", " #" or the end of the line, in brackets also to one of ",[]{}".
  bool scan_plain(std::size_t& at) {
    token_may_start_ = false;
    const std::size_t begin = at;
    while (at < line_.size()) {
      const char letter = line_[at];
      if (letter == ':' && ends_word(at + 1)) return true;
      if (letter == '#' && at > 0 && is_blank(line_[at - 1])) return true;
      if (!open_.empty() && std::string_view(",[]{}").find(letter) != std::string_view::npos) {
        if (letter == '{' && at > begin && line_[at - 1] == '$') {
          return refuse(mark(at - 1, 2), "a reference inside [ ] or { } needs quotes", "\"${…}\"");
        }
        if (letter == '[' || letter == '{') return open_bracket(at);
        return true;
      }
      ++at;
    }
    return true;
  }

  bool refuse_depth(const Mark& at) { return refuse(at, fmt::format("nested more than {} deep", deepest_nesting)); }

  SourceSet& sources_;
  int source_;
  std::string_view text_;
  int skipped_;
  std::string_view line_;
  int line_number_ = 0;
  std::vector<Open> open_;
  bool token_may_start_ = true;
  int num_dashes_ = 0;
};

}  // namespace

bool scan_yaml(SourceSet& sources, int source, std::string_view text, int num_skipped_bytes) {
  return Scanner(sources, source, text, num_skipped_bytes).run();
}

}  // namespace trainer
